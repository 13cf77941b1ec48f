"""Gives a prompt up if its counts and its history say that more samples will hardly bring a signal.

Everywhere here alpha and beta, or ``belief``, are positives and negatives of the belief before the step; counts are
positives and negatives drawn since.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.stopping.paths import goes_on
from ada_lightning.core.stopping.rule import QuotaRule, StoppingRule


@dataclass(frozen=True, slots=True)
class PosteriorRule(StoppingRule):
    """A quota rule that also stops where no further number of blocks promises enough.

    At counts (P, Q) the pass rate is believed to be Beta(alpha + P, beta + Q). Let ``F_h`` be the chance that the
    quotas are met within h more blocks. The best that sampling on can achieve is ``max_h F_h / E[responses until met or
    h blocks]`` completed quotas per response; where that is below ``min_rate``, the prompt is given up. Looking at the
    next block alone (h = 1) would give up prompts that need two.

    The belief enters as two numbers, so each distinct belief has its own table of paths; callers round them to a grid.
    """

    quota: QuotaRule
    alpha: float
    beta: float
    min_rate: float
    """Completed quotas per response."""

    @property
    def n_max(self) -> int:  # type: ignore[override]
        """Most responses that count as evidence."""
        return self.quota.n_max

    def stops(self, num_positive: int, num_negative: int) -> bool:
        """Whether the quota rule stops, or a complete block leaves too little hope."""
        if self.quota.stops(num_positive, num_negative):
            return True
        num_sampled = num_positive + num_negative
        if num_sampled == 0 or num_sampled % self.quota.samples_per_round:
            return False
        return (num_positive, num_negative) in _given_up(self)

    def is_resolved(self, num_positive: int, num_negative: int) -> bool:
        """Whether both quotas are met."""
        return self.quota.is_resolved(num_positive, num_negative)


def completion_rate(quota: QuotaRule, alpha: float, beta: float, num_positive: int, num_negative: int) -> float:
    """Completed quotas per response, if sampling goes on for the best number of blocks.

    Returns:
        ``max_h F_h / E[responses until met or h blocks]``; 0 where no block is left.

    Example:
        >>> quota = QuotaRule(k_pos=1, k_neg=1, samples_per_round=4, n_max=32)
        >>> completion_rate(quota, 1, 1, 0, 4) > completion_rate(quota, 1, 20, 0, 4)
        True
    """
    num_blocks = (quota.n_max - num_positive - num_negative) // quota.samples_per_round
    if num_blocks < 1:
        return 0.0
    draws_H = quota.samples_per_round * np.arange(1, num_blocks + 1)
    chance_H = _completion_chance(quota, (alpha, beta), (num_positive, num_negative), draws_H)
    open_before_H = np.concatenate([[1.0], 1.0 - chance_H[:-1]])
    responses_H = quota.samples_per_round * np.cumsum(open_before_H)
    return float(np.max(chance_H / responses_H))


@lru_cache(maxsize=65536)
def completion_chance(
    quota: QuotaRule, alpha: float, beta: float, num_positive: int, num_negative: int, num_draws: int
) -> float:
    """Probability that the quotas are met after ``num_draws`` more responses.

    Example:
        >>> quota = QuotaRule(k_pos=1, k_neg=1, samples_per_round=4, n_max=32)
        >>> round(completion_chance(quota, 1.0, 1.0, 0, 1, 1), 6)  # the next is right with chance 1/3
        0.333333
    """
    draws = np.array([num_draws])
    return float(_completion_chance(quota, (alpha, beta), (num_positive, num_negative), draws)[0])


@lru_cache(maxsize=65536)
def expected_draws(quota: QuotaRule, alpha: float, beta: float, num_positive: int, num_negative: int) -> float:
    """Responses until the quotas are met or ``n_max`` is reached, in whole blocks.

    Returns:
        ``M sum_h P(open after h blocks)`` over the blocks of M responses that are left, h from 0; 0 where the quotas
        are met.

    Example:
        >>> quota = QuotaRule(k_pos=1, k_neg=1, samples_per_round=4, n_max=32)
        >>> expected_draws(quota, 1, 1000, 0, 4) > 0.9 * 28  # hopeless: all that is left
        True
        >>> expected_draws(quota, 1, 1, 1, 3)
        0.0
    """
    if quota.stops(num_positive, num_negative):
        return 0.0
    num_blocks = -(-(quota.n_max - num_positive - num_negative) // quota.samples_per_round)
    draws_H = quota.samples_per_round * np.arange(num_blocks)
    chance_H = _completion_chance(quota, (alpha, beta), (num_positive, num_negative), draws_H)
    return float(quota.samples_per_round * np.sum(1.0 - chance_H))


@lru_cache(maxsize=65536)
def going_on_chance(
    rule: StoppingRule, quota: QuotaRule, belief: tuple[float, float], counts: tuple[int, int], num_draws: int
) -> float:
    """Probability that the quotas are open after ``num_draws`` more responses, and the prompt is not given up there.

    Whether it was given up on the way is not looked at: in which order the responses come is not known.

    ``rule`` is what the prompt's sampling follows, ``quota`` what completes it; of draws there are no more than
    ``n_max`` leaves.

    Example:
        >>> quota = QuotaRule(k_pos=1, k_neg=1, samples_per_round=4, n_max=32)
        >>> dear = PosteriorRule(quota, alpha=1.0, beta=8.0, min_rate=0.2)
        >>> going_on_chance(quota, quota, (1.0, 8.0), (0, 4), 4) > 0.7  # hopeless, and never given up
        True
        >>> going_on_chance(dear, quota, (1.0, 8.0), (0, 4), 4)
        0.0
    """
    from scipy.stats import betabinom

    more_K = np.arange(num_draws + 1)
    positives_K, negatives_K = counts[0] + more_K, counts[1] + num_draws - more_K
    is_met_K = (positives_K >= quota.k_pos) & (negatives_K >= quota.k_neg)
    is_open_K = goes_on(rule)[positives_K, negatives_K] & ~is_met_K
    if not is_open_K.any():
        return 0.0
    chance_K = betabinom.pmf(more_K, num_draws, belief[0] + counts[0], belief[1] + counts[1])
    return min(float(np.sum(chance_K[is_open_K])), 1.0)


@lru_cache(maxsize=65536)
def expected_draws_until_stop(rule: StoppingRule, belief: tuple[float, float], counts: tuple[int, int]) -> float:
    """Responses until a rule of counts stops, whatever it stops for.

    Example:
        >>> quota = QuotaRule(k_pos=1, k_neg=1, samples_per_round=4, n_max=32)
        >>> hopeless = (1.0, 8.0), (0, 4)
        >>> expected_draws_until_stop(PosteriorRule(quota, 1.0, 8.0, min_rate=0.2), *hopeless)
        0.0
    """
    is_open = goes_on(rule)
    walkers_K = np.ones(1)  # share of prompts still sampled, by positives drawn from here on
    total = 0.0
    for num_drawn in range(rule.n_max - sum(counts) + 1):
        more_K = np.arange(num_drawn + 1)
        walkers_K = walkers_K * is_open[counts[0] + more_K, counts[1] + num_drawn - more_K]
        if not walkers_K.any():
            break
        total += float(walkers_K.sum())
        pass_rate_K = (belief[0] + counts[0] + more_K) / (sum(belief) + sum(counts) + num_drawn)
        walkers_K = np.append(walkers_K * (1.0 - pass_rate_K), 0.0) + np.append(0.0, walkers_K * pass_rate_K)
    return total


def _completion_chance(
    quota: QuotaRule, belief: tuple[float, float], counts: tuple[int, int], draws_H: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Chance of at least the missing positives, and at most n minus the missing negatives of them, in n draws."""
    from scipy.stats import betabinom

    missing_positives = max(0, quota.k_pos - counts[0])
    missing_negatives = max(0, quota.k_neg - counts[1])
    posterior = belief[0] + counts[0], belief[1] + counts[1]
    chance_H = betabinom.cdf(draws_H - missing_negatives, draws_H, *posterior)
    if missing_positives:
        chance_H = chance_H - betabinom.cdf(missing_positives - 1, draws_H, *posterior)
    return np.where(draws_H >= missing_positives + missing_negatives, chance_H, 0.0)


@lru_cache(maxsize=4096)
def _given_up(rule: PosteriorRule) -> frozenset[tuple[int, int]]:
    """Counts at block boundaries, within what the quotas leave open, where the rule gives up."""
    quota = rule.quota
    points = [
        (positives, total - positives)
        for total in range(quota.samples_per_round, quota.n_max, quota.samples_per_round)
        for positives in range(total + 1)
        if not quota.is_resolved(positives, total - positives)
    ]
    return frozenset(point for point in points if completion_rate(quota, rule.alpha, rule.beta, *point) < rule.min_rate)
