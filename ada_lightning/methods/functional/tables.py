"""Look up a per-rule table at the counts where each response's sampling ended."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.core.stopping.rule import StoppingRule


def at_pool_end(microbatch: Microbatch, table: Callable[[StoppingRule], NDArray[np.float64]]) -> Tensor:
    """Value of its own rule's table at (positives, negatives) of each response's pool.

    Args:
        microbatch: of responses that carry their rule and counts.
        table: makes (or finds) a rule's table, shape ``(n_max + 1, n_max + 1)``.

    Returns:
        Shape ``(B,)``, float32.

    Raises:
        ValueError: a pool was not ended by its counts alone, so no paths can be counted.
    """
    if bool((microbatch.rule_B < 0).any()):
        raise ValueError(
            "a pool was ended by more than its counts of positives and negatives, so paths cannot be counted; "
            "use advantage=stratified or another estimator with this sampler"
        )
    values = [np.empty(0)] if not microbatch.rules else [table(rule).ravel() for rule in microbatch.rules]
    device = microbatch.rule_B.device
    start_U = torch.tensor(np.cumsum([0, *map(len, values[:-1])]), device=device)
    side_U = torch.tensor([rule.n_max + 1 for rule in microbatch.rules], dtype=torch.int64, device=device)
    positive_B = microbatch.num_positive_B.to(torch.int64)
    negative_B = microbatch.num_sampled_B.to(torch.int64) - positive_B
    index_B = start_U[microbatch.rule_B] + positive_B * side_U[microbatch.rule_B] + negative_B
    return torch.tensor(np.concatenate(values), dtype=torch.float32, device=device)[index_B]
