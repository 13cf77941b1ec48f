"""What the parts of an update have come to, beside the gradients themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ada_lightning.training.updates.drift import Drift


@dataclass
class GradientSum:
    """Loss and figures of the microbatches whose gradients have been added up so far."""

    loss: Tensor = field(default_factory=lambda: torch.zeros(()))
    """Divided as the gradients are; on the device of the first microbatch once there was one."""
    totals: dict[str, Tensor] = field(default_factory=dict)
    """Sums over tokens for logging, as :class:`~ada_lightning.training.losses.terms.PolicyLoss` names them."""
    drift: Drift = field(default_factory=Drift)
    """How far the policy has moved from the one that sampled, where an older one samples."""
