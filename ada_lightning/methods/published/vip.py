"""VIP: divide a step so that the gradient's variance is smallest (arXiv:2602.01601, ICLR 2026).

Equation: min over n of ``sum_q a_q variance(n_q)``, ``a_q = p_q (1 - p_q)``, ``sum_q n_q = C``, ``L <= n_q <= U``
    (section 5; theorems 5.1 and 5.2 solve it in real numbers, algorithm 2 rounds).
Claim: of all divisions of the same C this one gives the gradient of the mean over prompts the least variance.
Assumption: on-policy, no KL, reward and projected score uncorrelated with one score variance for all prompts
    (assumptions 3.1, 4.1); the predicted pass rates are true; every prompt counts the same (``prompt_mean``).
Degenerate: equal predictions divide evenly; a prediction of 0 or 1 gets L.
Fidelity: faithful (paper) with ``estimator/embedding=sentence``. By default embeddings are the policy's hidden states;
    the paper's are MiniLM's, which need a download or a folder. Whole numbers are exact, by marginal gains. The code's
    term for hard prompts, its dropping of small plans and its surrogate for rounding are not copied. The loss takes the
    mean over a prompt's responses, the script the token mean.

A prompt's gradient estimate is the mean over its n responses of advantage times score, which is what
``loss/reduction=prompt_mean`` computes. Its variance is ``p (1-p) * variance(n)`` up to a constant that is the same for
all prompts: rewards are uncorrelated with the projected score (assumption 4.1, propositions 4.2 and 4.3; for rewards of
-1 and 1 times 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from ada_lightning.core.options import option, use
from ada_lightning.core.records import Belief
from ada_lightning.methods.advantages import LeaveOneOutAdvantage
from ada_lightning.methods.checked import Check
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.by_tokens import TokenDividingSampler
from ada_lightning.methods.sampling.marginal_gain import allocate_by_gain
from ada_lightning.methods.selection import AllSelection

_MARGIN = 1e-6
"""Predictions keep this distance from 0 and 1, as in the public code: ``ln p`` must stay finite."""


class GradientVariance(Protocol):
    """How the variance depends on n, in units of ``p (1-p)`` times the score's variance."""

    fewest: int
    """From here on it falls by less and less with every response (convex), so that a greedy division is the best."""

    def __call__(self, num_responses: int) -> float:
        """Variance of the mean over ``num_responses``."""
        ...

    def gain(self, num_responses: int) -> float:
        """By how much one response more lowers it."""
        ...


class RlooVariance:
    """``1 / (n-1)``: reward minus the mean of the others (``advantage=rloo``).

    Source:
        VIP, arXiv:2602.01601, proposition 4.3.

    Example:
        >>> RlooVariance()(3), RlooVariance().gain(3)
        (0.5, 0.16666666666666666)
    """

    fewest = 2

    def __call__(self, num_responses: int) -> float:
        """For 2 responses or more."""
        return 1.0 / (num_responses - 1)

    def gain(self, num_responses: int) -> float:
        """``1/(n-1) - 1/n``, without the cancellation."""
        return 1.0 / (num_responses * (num_responses - 1))


class DrGrpoVariance:
    """``(n-1) / n^2``: reward minus the mean of the group (``advantage=dr_grpo``).

    A single response has variance 0, and no gradient either. The second raises the variance, the third lowers it by
    less than the fourth; only from 3 on is it convex.

    Source:
        VIP, arXiv:2602.01601, proposition 4.2.

    Example:
        >>> DrGrpoVariance()(2), DrGrpoVariance().gain(2)
        (0.25, 0.027777777777777776)
    """

    fewest = 3

    def __call__(self, num_responses: int) -> float:
        """For any number."""
        return (num_responses - 1) / num_responses**2

    def gain(self, num_responses: int) -> float:
        """``(n-1)/n^2 - n/(n+1)^2``, without the cancellation."""
        n = num_responses
        return (n * n - n - 1) / (n * (n + 1)) ** 2


@option("sampler", "vip", variance=use(RlooVariance), group_size="${.n_max}")
@dataclass(kw_only=True, eq=False)
class VipSampler(TokenDividingSampler):
    """Responses go where they lower the gradient's variance most, which is to pass rates near 1/2.

    VIP, arXiv:2602.01601. The variance is that of the mean over a prompt's responses: use
    ``loss/reduction=prompt_mean`` with ``advantage=rloo``, or with ``advantage=dr_grpo`` and :class:`DrGrpoVariance`.
    The paper draws 8 or 16 responses per prompt; the public code has at most 32.

    Algorithm 2 rounds the real-valued solution down and gives what is left to the largest decrease. From the convex
    range on, giving every response to the largest decrease is the exact whole-number optimum; that is what is done.
    With ``by_tokens`` it goes to the largest decrease per token: ``n ~ sqrt(a / length)``, in DUET (arXiv:2605.08441).

    Source:
        The paper. Its public code, HieuNT91/VIP at 0c17c79e (``src/vip/allocation/bernoulli_allocation.py``), adds a
        term for hard prompts, drops prompts with few responses, and rounds by ``a (n+3) / (n+4)^2`` for both
        advantages. None of that is here.

    Example:
        >>> sampler = VipSampler(responses_per_prompt=8, variance=RlooVariance(), n_min=3)
        >>> sampler.divide([Belief(2.0, 98.0), Belief(50.0, 50.0)], 16)
        [4, 12]
    """

    variance: GradientVariance
    """Of the run's advantage: RlooVariance or DrGrpoVariance (the paper has both)."""
    n_min: int = 3
    """Fewest responses per prompt and step; 3 is the lowest that both variances allow (code: 4, 1)."""

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


VIP = known(
    Recipe(
        name="vip",
        card=Card(
            table="responses",
            changes="divides a fixed total for the least gradient variance",
            needs="a Gaussian process over prompt embeddings",
            cost="8 on average",
            fidelity="faithful to the paper with `estimator/embedding=sentence`",
            departs=(
                "By default embeddings are the policy's hidden states. The paper's are MiniLM's, which need a download "
                "or a folder. Whole numbers are exact, by marginal gains. Not copied from the code: its term for hard "
                "prompts, its dropping of small plans, and its surrogate for rounding. The loss is a mean over a "
                "prompt's responses; the script takes the token mean."
            ),
            also=("vip_dr_grpo",),
        ),
        checked=Comparison(
            rule="the division, and by simulation the variance that it minimises",
            against="brute force",
            test="unit/methods/sampling/test_planned.py::test_it_is_the_best_of_all_divisions_of_three_prompts",
            also=("vip_dr_grpo",),
        ),
        text="""
            VIP with leave-one-out advantages (arXiv:2602.01601): responses go where they lower the gradient's variance
            most. Pass rates are predicted by a Gaussian process. That variance is of the mean over a prompt's
            responses. The authors' script has loss/reduction=token_mean, which weighs prompts by their number of
            tokens. Their process is over embeddings by all-MiniLM-L6-v2. That is estimator/embedding=sentence here,
            which brings 90 MB from the hub or reads a folder (estimator.embedding.path). A run without it takes the
            policy's own hidden states, which need neither.
        """,
        estimator="gaussian_process",
        sampler=VipSampler,
        selection=AllSelection,
        advantage=LeaveOneOutAdvantage,
        reduction="prompt_mean",
    )
)
VIP_DR_GRPO = known(
    Recipe(
        name="vip_dr_grpo",
        text="""
            VIP with mean-centred advantages and their variance (arXiv:2602.01601, proposition 4.2). Each prompt's
            update is shrunk by (n-1)/n of its own n, which leave-one-out advantages (experiment vip) do not do.
            Embeddings are as the experiment vip says.
        """,
        estimator="gaussian_process",
        sampler=use(VipSampler, variance=use(DrGrpoVariance)),
        selection=AllSelection,
        advantage="dr_grpo",
        reduction="prompt_mean",
    )
)
