"""Which estimate of a prompt's pass rate goes into a baseline or a weight: see :class:`PassRate`."""

from __future__ import annotations

from functools import lru_cache
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import PassRate
from ada_lightning.core.records import ResponseGroup
from ada_lightning.core.stopping.paths import unbiased_table
from ada_lightning.core.stopping.rule import StoppingRule
from ada_lightning.methods.functional import at_pool_end, kept_rewards


class PoolMeanRate(PassRate):
    """Mean reward of the pool: lowest variance, biased by the stopping rule (+0.06 at 0.2 for balance, blocks of 4)."""

    def __call__(self, group: ResponseGroup) -> float:
        """Return one number."""
        return fmean(response.reward for response in group.pool.responses)


class FirstRoundRate(PassRate):
    """Mean reward of the first round only: unbiased, and as noisy as a handful of samples is."""

    may_be_zero = True

    def __call__(self, group: ResponseGroup) -> float:
        """Return one number; 0 where nothing of the first round counts."""
        return fmean(group.pool.first_round_rewards or [0.0])


class LeaveOneOutRate(PassRate):
    """Mean reward of the pool without the response itself: as a baseline it is independent of what it is taken from.

    The only estimate here that differs between the responses of one pool. In a pool of one it is the response's own
    reward, which leaves no advantage.
    """

    may_be_zero = True

    def __call__(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return one number for each kept response. Shape ``(G,)``."""
        rewards, num_others = kept_rewards(group), group.pool.num_sampled - 1
        return (sum(r.reward for r in group.pool.responses) - rewards) / num_others if num_others else rewards


class PathCountingRate(PassRate):
    """Share of paths to the pool's end that begin with a positive: unbiased, with less variance than the first round.

    Needs a stopping rule of counts and rewards of 0 or 1.

    Source:
        Girshick, Mosteller and Savage 1946.
    """

    may_be_zero = True

    def __call__(self, group: ResponseGroup) -> float:
        """Return one number.

        Raises:
            ValueError: the pool was ended by more than its counts.
        """
        return at_pool_end(group.pool, _pass_rates)


@lru_cache(maxsize=4096)
def _pass_rates(rule: StoppingRule) -> NDArray[np.float64]:
    """Estimate by the point where sampling ended; every pool of the rule reads the same table."""
    return unbiased_table(rule, {(1, 0): 1.0})


class PosteriorRate(PassRate):
    """Posterior mean of Beta(alpha, beta) after the pool: never 0 or 1, and steadier where a prompt was seen before.

    Counts at a stopping time are as informative as any (the likelihood does not know the rule), so no correction for
    stopping is due; the mean is as biased as its prior.
    """

    is_known_before = True

    def __call__(self, group: ResponseGroup) -> float:
        """Return one number, inside (0, 1)."""
        belief, rewards = group.pool.belief, [response.reward for response in group.pool.responses]
        return (belief.alpha + sum(rewards)) / (belief.alpha + belief.beta + len(rewards))
