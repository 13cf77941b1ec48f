"""GRPO's rule: reward standardised within the group that trains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.functional import kept_rewards, standardized


@dataclass(kw_only=True, eq=False)
class GroupNormalizedAdvantage(Advantage):
    """Standardises each reward by mean and standard deviation of the kept group.

    Source:
        DeepSeekMath, arXiv:2402.03300, section 4.1.2; Dr. GRPO, arXiv:2503.20783.
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    normalize_std: bool = True
    """Divide by the group's standard deviation (unbiased, plus 1e-6). False gives Dr. GRPO's rule."""

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return ``(r - mean) / (std + 1e-6)`` or ``r - mean``. Shape ``(G,)``."""
        return standardized(kept_rewards(group), normalize_std=self.normalize_std)
