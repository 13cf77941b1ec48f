"""Numbers that several advantages share, of one group or of a whole rollout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.records import Belief, ResponseGroup, ResponsePool
from ada_lightning.core.stopping.paths import reach
from ada_lightning.core.stopping.rule import StoppingRule

Values = NDArray[np.float64]
_ROUNDING = 1e-6
"""A mean below this part of the deviation is rounding: centred groups have the mean 0, and a group without signal is to
keep its advantages of 0."""


def kept_rewards(group: ResponseGroup) -> Values:
    """Rewards of what is kept. Shape ``(G,)``."""
    return np.array([kept.response.reward for kept in group.kept], dtype=np.float64)


def common_mean(values: Values) -> float:
    """Mean; where all values are equal exactly that value, whatever float rounding makes of their sum.

    Example:
        >>> common_mean(np.array([1.0, 0.0])), common_mean(np.array([0.1] * 3))
        (0.5, 0.1)
    """
    return float(values.mean() if np.ptp(values) else values[0])


def centered(values: Values) -> Values:
    """Subtract the mean; exactly 0 where all are equal.

    Example:
        >>> centered(np.array([1.0, 0.0])).tolist(), centered(np.array([0.1] * 3)).tolist()
        ([0.5, -0.5], [0.0, 0.0, 0.0])
    """
    return values - common_mean(values)


def unbiased_std(values: Sequence[float] | Values) -> float:
    """Standard deviation with ``n - 1`` in the denominator; 0 where there are fewer than two values.

    Example:
        >>> round(unbiased_std([1.0, 0.0, 0.0, 1.0]), 4)
        0.5774
    """
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def class_contrast(group: ResponseGroup, coefficient: float | Values) -> Values:
    """``+c / m+`` on each kept positive and ``-c / m-`` on each kept negative. Shape ``(G,)``.

    The expected sum over a prompt's kept responses of this times the score is ``grad p * E[c] / (p q)``, for any
    choice within each class that does not look at the responses.

    Args:
        group: m of a class is its number in the pool over the selection weight of what is kept of it.
        coefficient: c, one number or one for each kept response.
    """
    pool = group.pool
    signed_size = [pool.num_positive if kept.response.is_positive else -pool.num_negative for kept in group.kept]
    return np.array([kept.selection_weight for kept in group.kept]) / np.array(signed_size) * coefficient


def at_pool_end(pool: ResponsePool, table: Callable[[StoppingRule], Values]) -> float:
    """Value at the (positives, negatives) where a pool's sampling ended, of its rule's table.

    A table has the shape ``(n_max + 1, n_max + 1)``.

    Raises:
        ValueError: the pool was not ended by its counts alone, or ended where its rule never gets, so no paths can be
            counted.
    """
    if pool.rule is None:
        raise ValueError(
            "a pool was ended by more than its counts of positives and negatives, so paths cannot be counted; "
            "use advantage=stratified or another estimator with this sampler"
        )
    if not reach(pool.rule)[pool.num_positive, pool.num_negative]:
        raise ValueError(
            f"a pool ended at {pool.num_positive} positives and {pool.num_negative} negatives, where no path of its "
            f"rule {type(pool.rule).__name__} leads: it stops inside a block of the sampler, so put the condition that "
            "a block is complete into the rule"
        )
    return float(table(pool.rule)[pool.num_positive, pool.num_negative])


def expected_by_history(rewards: Values, belief: Belief) -> Values:
    """Return ``(k m + sum of the other rewards) / (k + n - 1)`` for each of n rewards.

    m is the mean of the belief about the pass rate before the step, ``k = alpha + beta`` its strength.

    Example:
        >>> expected_by_history(np.array([1.0, 0.0]), Belief(alpha=2.0, beta=1.0)).tolist()
        [0.5, 0.75]
    """
    others = belief.alpha + sum(rewards.tolist()) - rewards
    return others / (belief.alpha + belief.beta + len(rewards) - 1)


def whitened(values: Sequence[float], weights: Sequence[float], *, epsilon: float) -> list[float]:
    """Subtract the weighted mean, and divide by the weighted standard deviation plus ``epsilon``.

    A weight is how often a value counts, as the number of a response's tokens. All are 0 where the values are equal, or
    where no more than one counts.

    Example:
        >>> [round(value, 3) for value in whitened([1.0, 0.0, 0.0, 3.0], [1.0] * 4, epsilon=0.0)]
        [0.0, -0.707, -0.707, 1.414]
    """
    total = math.fsum(weights)
    if total <= 1.0:
        return [0.0] * len(values)
    mean = math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / total
    squares = math.fsum(weight * (value - mean) ** 2 for value, weight in zip(values, weights, strict=True))
    std = math.sqrt(squares / (total - 1.0))
    if std == 0.0:
        return [0.0] * len(values)
    if abs(mean) <= _ROUNDING * std:
        mean = 0.0
    return [(value - mean) / (std + epsilon) for value in values]


def whitened_groups(
    groups: Sequence[ResponseGroup], values: Sequence[Sequence[float]], *, by_tokens: bool, epsilon: float
) -> list[list[float]]:
    """Whiten one value per kept response over a whole rollout, each once, or each as often as it has tokens."""
    weights = [float(kept.response.num_tokens) if by_tokens else 1.0 for group in groups for kept in group.kept]
    flat = iter(whitened([value for row in values for value in row], weights, epsilon=epsilon))
    return [[next(flat) for _ in row] for row in values]
