"""MaxRL (Maximum Likelihood Reinforcement Learning, arXiv:2602.02710): reward over the group's mean, minus 1.

Claim: maximises log p as far as n responses can see, at no cost; RL follows only the first term of that series. Assumes
rewards of 0 and 1 and a group that is all of its pool. Degenerate case: a mean of 0 (or below) gives 0, so that its
prompts are lost and the series ends one term earlier than without a baseline.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.core.protocols import Compared
from ada_lightning.methods.functional.moments import centered


class MaxRlAdvantage:
    """``(r - mean) / mean`` with the mean of the kept group.

    With n responses for every prompt, all of them kept, the mean over a group of advantage times score has the
    expectation ``(1 - (1 - p)^(n - 1)) / p`` times grad p: exact for that part of log p, the same expectation as
    ``advantage=exact objective=log``. With ragged groups each follows the series of its own n. Groups without signal
    have advantages of 0. Selections that change the mix of classes change the mean and with it the objective: with as
    many positives as negatives nothing of the 1/p is left.

    Source:
        arXiv:2602.02710; prime-rl's ``max_rl``. The degenerate case as there: 0 where the mean is not positive.
    """

    compares: ClassVar[Compared] = "kept"

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return ``(r - mean) / mean``; 0 where the mean is not positive. Shape ``(B,)``, float32."""
        mean_B = microbatch.group_reward_sum_B / microbatch.group_size_B
        advantages_B = centered(microbatch.rewards_B, microbatch.group_reward_sum_B, microbatch.group_size_B)
        return torch.where(mean_B > 0, advantages_B / mean_B.where(mean_B > 0, 1.0), 0.0)
