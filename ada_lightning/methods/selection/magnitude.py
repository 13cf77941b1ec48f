"""How far each response of a pool is from what was expected: what several selections rank or prune by."""

from __future__ import annotations

from ada_lightning.core.records import ResponsePool

_EPSILON = 1e-6
"""As in :class:`~ada_lightning.methods.advantages.PoolMeanAdvantage`."""


def pool_advantages(pool: ResponsePool, *, normalize_std: bool) -> list[float]:
    """Advantage of every response of a pool, before anything is selected: reward minus the mean over all of them.

    The same numbers that :class:`~ada_lightning.methods.advantages.PoolMeanAdvantage` computes later for those that are
    kept.

    Args:
        pool: complete; responses that may not train count in its mean too.
        normalize_std: divide by the pool's standard deviation (unbiased, plus 1e-6).

    Returns:
        One number per response, in launch order, in the reward's unit unless normalised. All are exactly 0 where all
        rewards are equal, whatever float rounding makes of their mean.
    """
    if not pool.has_signal:
        return [0.0] * pool.num_sampled
    rewards = [response.reward for response in pool.responses]
    mean = sum(rewards) / len(rewards)
    advantages = [reward - mean for reward in rewards]
    if not normalize_std:
        return advantages
    std = (sum(advantage**2 for advantage in advantages) / (len(rewards) - 1)) ** 0.5
    return [advantage / (std + _EPSILON) for advantage in advantages]
