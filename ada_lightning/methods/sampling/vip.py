"""VIP: divide a step so that the gradient's variance is smallest (arXiv:2602.01601, ICLR 2026).

Equation: min over n of ``sum_q a_q variance(n_q)``, ``a_q = p_q (1 - p_q)``, ``sum_q n_q = C``, ``L <= n_q <= U``
    (section 5; theorems 5.1 and 5.2 solve it in real numbers, algorithm 2 rounds).
Claim: of all divisions of the same C this one gives the gradient of the mean over prompts the least variance.
Assumption: on-policy, no KL, reward and projected score uncorrelated with one score variance for all prompts
    (assumptions 3.1, 4.1); the predicted pass rates are true; every prompt counts the same (``prompt_mean``).
Degenerate: equal predictions divide evenly; a prediction of 0 or 1 gets L.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.options import option, use
from ada_lightning.core.records import Belief
from ada_lightning.methods.checked import Check
from ada_lightning.methods.sampling.by_tokens import TokenDividingSampler
from ada_lightning.methods.sampling.gradient_variance import GradientVariance, RlooVariance
from ada_lightning.methods.sampling.marginal_gain import allocate_by_gain

_MARGIN = 1e-6
"""Predictions keep this distance from 0 and 1, as in the public code: ``ln p`` must stay finite."""


@option("sampler", "vip", responses_per_prompt=8, variance=use(RlooVariance), group_size="${.n_max}")
@dataclass(kw_only=True, eq=False)
class VipSampler(TokenDividingSampler):
    """Responses go where they lower the gradient's variance most, which is to pass rates near 1/2.

    Algorithm 2 rounds the real-valued solution down and gives what is left to the largest decrease. From the convex
    range on, giving every response to the largest decrease is the exact whole-number optimum; that is what is done.
    With ``by_tokens`` it goes to the largest decrease per token: ``n ~ sqrt(a / length)``, in DUET (arXiv:2605.08441).

    Source:
        The paper. Its public code, HieuNT91/VIP at 0c17c79e (``src/vip/allocation/bernoulli_allocation.py``), adds a
        term for hard prompts, drops prompts with few responses, and rounds by ``a (n+3) / (n+4)^2`` for both
        advantages. None of that is here.

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

    def divide(self, beliefs: Sequence[Belief], total: int, costs: Sequence[float] | None = None) -> list[int]:
        """Minimise the summed variance at the beliefs' means."""
        rates = [min(max(belief.mean, _MARGIN), 1.0 - _MARGIN) for belief in beliefs]  # nan stays nan, and is refused
        spreads = [rate * (1.0 - rate) for rate in rates]
        gains, fewest = self._gains, self.variance.fewest
        return allocate_by_gain(
            lambda index, n: spreads[index] * gains[n - fewest],
            total,
            [self.n_min] * len(beliefs),
            [self.n_max] * len(beliefs),
            costs=costs,
        )
