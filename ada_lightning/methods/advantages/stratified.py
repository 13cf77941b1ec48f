"""The exact estimator's plug-in relative: right weights per class, a pass rate that is only an estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, Objective, PassRate, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.functional import class_contrast


@dataclass(kw_only=True, eq=False)
class StratifiedAdvantage(Advantage):
    """``c = f'(p) p (1-p)`` at an estimated pass rate, split over the kept responses of each class.

    Undoes the class mix of the selection for any sampler, but not the bias of an estimate taken at a stopping time: how
    far off that is, `python -m research.benchmarks.estimator_bias` computes. Rewards must be 0 or 1: the estimates
    average them.

    Source:
        Post-stratification; derived for Reinforce-Ada in ``docs/estimators.md``.
    """

    traits = frozenset({Trait.COMPARES_DRAWN, Trait.NEEDS_BOTH_CLASSES})

    objective: Objective
    """What is maximised."""
    pass_rate: PassRate
    """Which estimate goes in."""

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return ``+c / m+`` or ``-c / m-``; 0 where the estimate is 0 or 1. Shape ``(G,)``.

        Raises:
            ValueError: a reward is neither 0 nor 1, or the positive threshold does not tell them apart.
        """
        for response in group.pool.responses:
            if response.reward != response.is_positive:
                raise ValueError(
                    "advantage=stratified estimates pass rates from rewards of 0 and 1, with "
                    f"rollout.positive_threshold between them; a pool holds a reward of {response.reward:g}; use a "
                    "reward of 0 and 1, or advantage=weighted_leave_one_out"
                )
        rate = np.broadcast_to(self.pass_rate(group), len(group.kept))
        inside = (rate > 0) & (rate < 1)
        safe = np.where(inside, rate, 0.5)
        return class_contrast(group, np.where(inside, self.objective.weight(safe) * safe * (1.0 - safe), 0.0))
