"""VIP: divide a step so that the gradient's variance is smallest (arXiv:2602.01601, ICLR 2026).

Equation: min over n of ``sum_q a_q variance(n_q)``, ``a_q = p_q (1 - p_q)``, ``sum_q n_q = C``, ``L <= n_q <= U``
    (section 5; theorems 5.1 and 5.2 solve it in real numbers, algorithm 2 rounds).
Claim: of all divisions of the same C this one gives the gradient of the mean over prompts the least variance.
Assumption: on-policy, no KL, reward and projected score uncorrelated with one score variance for all prompts
    (assumptions 3.1, 4.1); the predicted pass rates are true; every prompt counts the same (``prompt_mean``).
Degenerate: equal predictions divide evenly; a prediction of 0 or 1 gets L.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.records import Belief
from ada_lightning.methods.checked import Check
from ada_lightning.methods.sampling.by_tokens import TokenDividingSampler
from ada_lightning.methods.sampling.gradient_variance import GradientVariance
from ada_lightning.methods.sampling.marginal_gain import allocate_by_gain

_MARGIN = 1e-6
"""Predictions keep this distance from 0 and 1, as in the public code: ``ln p`` must stay finite."""


@dataclass(kw_only=True, eq=False)
class VipSampler(TokenDividingSampler):
    """Responses go where they lower the gradient's variance most, which is to pass rates near 1/2.

    Algorithm 2 rounds the real-valued solution down and gives what is left to the largest decrease. From the convex
    range on, giving every response to the largest decrease is the exact whole-number optimum; that is what is done.
    With ``by_tokens`` it goes to the largest decrease per token: ``n ~ sqrt(a / length)``, in DUET (arXiv:2605.08441).

    Source:
        Settings that the paper does not have: the public code, ``bernoulli_allocation.py`` at 0c17c79e. Its surrogate
        for rounding, ``a (n+3) / (n+4)^2`` for both advantages, belongs to neither and is not here.

    Example:
        >>> from ada_lightning.methods.sampling.gradient_variance import RlooVariance
        >>> sampler = VipSampler(responses_per_prompt=8, variance=RlooVariance(), n_min=3)
        >>> sampler.divide([Belief(2.0, 98.0), Belief(50.0, 50.0)], 16)
        [4, 12]
    """

    variance: GradientVariance
    """That of the run's advantage."""
    n_min: int = 3
    n_max: int = 32
    group_size: int = 32
    hard_bias_gamma: float = 0.0
    """Adds ``gamma ln(p)`` per response to what is minimised, so that hard prompts get more; 0 is the paper."""
    min_keep: int = 0
    """Prompts planned with fewer responses get none, and the largest get theirs; 0 is the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._gains = [self.variance.gain(n) for n in range(self.variance.fewest, self.n_max)]

    def _checks(self) -> Iterator[Check]:
        fewest = self.variance.fewest
        yield from super()._checks()
        yield (
            self.n_min >= fewest,
            f"n_min = {self.n_min} is less than {fewest}: below that, {type(self.variance).__name__} does not fall by "
            f"less and less, and the best plan starves prompts; use n_min={fewest} or more",
        )
        yield (
            0 <= self.hard_bias_gamma < math.inf,
            f"hard_bias_gamma must be 0 (off) or positive, and finite; got {self.hard_bias_gamma}",
        )
        yield (
            0 <= self.min_keep <= self.responses_per_prompt,
            f"min_keep must be 0 (off) or at most responses_per_prompt = {self.responses_per_prompt}, or a step of "
            f"equal prompts would keep none; got {self.min_keep}",
        )
        yield (
            not (self.by_tokens and self.min_keep),
            f"by_tokens divides tokens and min_keep = {self.min_keep} moves responses, whatever they cost; use "
            "min_keep=0",
        )

    def divide(self, beliefs: Sequence[Belief], total: int, costs: Sequence[float] | None = None) -> list[int]:
        """Minimise the summed variance at the beliefs' means."""
        rates = [min(max(belief.mean, _MARGIN), 1.0 - _MARGIN) for belief in beliefs]  # nan stays nan, and is refused
        spreads = [rate * (1.0 - rate) for rate in rates]
        bonuses = [-self.hard_bias_gamma * math.log(rate) for rate in rates]
        gains, fewest = self._gains, self.variance.fewest
        counts = allocate_by_gain(
            lambda index, n: spreads[index] * gains[n - fewest] + bonuses[index],
            total,
            [self.n_min] * len(beliefs),
            [self.n_max] * len(beliefs),
            costs=costs,
        )
        return _without_small(counts, self.min_keep, self.n_max)


def _without_small(counts: Sequence[int], min_keep: int, n_max: int) -> list[int]:
    """Take all responses from prompts with fewer than ``min_keep`` and fill up the largest, one after the other.

    Where the others have no room for all of it, the largest of those prompts come back.
    """
    kept = [count if count >= min_keep else 0 for count in counts]
    freed = sum(counts) - sum(kept)
    for index in sorted(range(len(counts)), key=lambda index: (-counts[index], index)):
        added = min(freed, n_max - kept[index])
        kept[index] += added
        freed -= added
    return kept
