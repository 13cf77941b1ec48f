"""MaxRL (Maximum Likelihood Reinforcement Learning, arXiv:2602.02710): reward over the group's mean, minus 1.

Claim: maximises log p as far as n responses can see, at no cost; RL follows only the first term of that series. Assumes
rewards of 0 and 1 and a group that is all of its pool. Degenerate case: a mean of 0 (or below) gives 0, so that its
prompts are lost and the series ends one term earlier than without a baseline.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.functional import centered, kept_rewards


class MaxRlAdvantage(Advantage):
    """``(r - mean) / mean`` with the mean of the kept group.

    With n responses for every prompt, all of them kept, the mean over a group of advantage times score has the
    expectation ``(1 - (1 - p)^(n - 1)) / p`` times grad p: exact for that part of log p, the same expectation as
    ``advantage=exact objective=log``. With ragged groups each follows the series of its own n. Groups without signal
    have advantages of 0. Selections that change the mix of classes change the mean and with it the objective: with as
    many positives as negatives nothing of the 1/p is left.

    Source:
        arXiv:2602.02710; prime-rl's ``max_rl``. The degenerate case as there: 0 where the mean is not positive.
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return ``(r - mean) / mean``; 0 where the mean is not positive. Shape ``(G,)``."""
        rewards = kept_rewards(group)
        mean = rewards.mean()
        return centered(rewards) / mean if mean > 0 else np.zeros_like(rewards)
