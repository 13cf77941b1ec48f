"""The gradient of the mean reward, for rewards of any kind and any selection with weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, PassRate, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.functional import kept_rewards
from ada_lightning.methods.pass_rates import LeaveOneOutRate

_LEAVE_ONE_OUT = LeaveOneOutRate()


@dataclass(kw_only=True, eq=False)
class WeightedLeaveOneOutAdvantage(Advantage):
    """``(N_s / m_s) / N * (r - baseline)``: the sum over a prompt's kept responses is the pool's mean over all N.

    ``N_s / m_s`` (:attr:`~ada_lightning.core.records.KeptResponse.selection_weight`) undoes the selection. Goes with
    the ``constant`` loss reduction, which divides by nothing random.

    Exact for a fixed number of responses: the expected sum of ``A score`` is then the gradient of the mean reward, for
    any selection here, and with rewards of 0 and 1 it is the exact linear estimator, ``c = P Q / (N (N - 1))``.

    A bias of stopping remains where the rewards decide when sampling ends. N and the baseline are then taken at a
    moment that the rewards chose, and prompts whose rewards rarely differ weigh too much: for rewards of 0 and 1,
    blocks of 4 and at most 32 responses until both occur, the update is 2.02, 1.33, 1.10 times the gradient at pass
    rates of 0.05, 0.2, 0.5. Taking the first round's mean as the baseline leaves N random, and puts each first-round
    response into its own baseline: 1.73, 1.04, 0.82 times; ``1 - 1/N`` times where the first round is all there is.
    There is no exact estimator for such rules yet. Taking the first generated of a stratum within which responses
    differ to the sampler is a bias of its own, since later ones are those that ended sampling;
    ``selection.random_order`` avoids it.

    Source:
        Leave-one-out: Kool et al. 2019, as in RLOO, arXiv:2402.14740; the weights are those of stratified sampling.
    """

    traits = frozenset({Trait.COMPARES_DRAWN})

    baseline: PassRate = _LEAVE_ONE_OUT
    """What a reward is compared with: ``LeaveOneOutRate`` or ``FirstRoundRate``."""

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return the weighted advantages, in the reward's unit. Shape ``(G,)``."""
        share = np.array([kept.selection_weight for kept in group.kept]) / group.pool.num_sampled
        return share * (kept_rewards(group) - self.baseline(group))
