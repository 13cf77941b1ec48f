"""CoBA-RL: divide a step by a value that peaks at easy prompts first, at hard ones later (arXiv:2602.03048).

Equation: max over B of ``sum_i V(B_i, p_i)``, ``V(B, p) = (1 - exp(-B p (1-p) / tau)) BetaPDF(p; alpha, beta)``, with
    ``sum_i B_i = total`` and bounds. The Beta distribution has ``alpha = clip(1 + (kappa-2) F~, 1, kappa-1)`` and
    ``beta = kappa - alpha``. ``F~`` is F above 1/2 and ``sigmoid(10 (F - 1/2))`` below, with F the mean share of
    failures of the last steps.
Claim: a weak policy learns most from prompts it can solve, a strong one from hard ones ("exploit, then explore").
Assumption: pass rates seen at earlier visits still hold; one step's mean failure rate tells how strong the policy is.
Degenerate: prompts never seen count as p = 1/2; where none was seen, the division is even.
    Another paper (arXiv:2606.22317) uses the same name for another method.
Fidelity: faithful (paper). The code's three classes of difficulty are not copied; p is that of the last visits, the
    code's of the last three.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.core.options import option
from ada_lightning.core.records import Belief, ResponsePool
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.checked import Check
from ada_lightning.methods.estimators.counting import WindowEstimator
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.marginal_gain import allocate_by_gain, spread_evenly
from ada_lightning.methods.sampling.planned import OneShotSampler
from ada_lightning.methods.selection import AllSelection

_MARGIN = 0.01
"""Pass rates keep this distance from 0 and 1 (public code)."""
_LARGEST_VARIANCE = 0.1667
"""Variance of pass rates at which tau is largest (public code); twice that of a uniform distribution."""
_STEEPNESS = 10.0
"""Of the sigmoid below a failure rate of 1/2 (paper)."""


@option("sampler", "coba", group_size="${.n_max}")
@dataclass(kw_only=True, eq=False)
class CobaSampler(OneShotSampler):
    """One pass, divided by a value that peaks at easy prompts first and at hard ones later (arXiv:2602.03048).

    The value is a Beta density over pass rates, set by the recent share of failures. A prompt's first visits are
    uniform: ``sampler=knapsack`` says what that needs. Gains fall geometrically, so giving each response to the largest
    gain is optimal; the paper does the same. The public code first sorts prompts into three classes of difficulty, of
    which the paper says nothing; that is not here.

    Source:
        Within-yao/CoBA-RL at aa6b834a: ``recipe/coba_rl/budget_allocators.py``, which also has tau's range, how pass
        rates are clipped and the alpha of a run's first step.
    """

    responses_per_prompt: int = 8
    """Mean over a step's prompts; the step's total is met exactly (paper: 16)."""
    n_min: int = 2
    """Fewest responses per prompt and step (paper)."""
    n_max: int = 128
    """Most responses per prompt and step (paper)."""
    group_size: int = 128
    kappa: float = 11.0
    """Alpha + beta of the density; how sharp its peak is (paper: 11, also 7, 15, 21; code: 7)."""
    window: int = 3
    """Steps whose failure rates are averaged (code: 3, its script: 1)."""
    tau_min: float = 3.0
    """Scale of diminishing returns, in responses times p (1-p), where all pass rates are equal (code)."""
    tau_max: float = 12.0
    """The same where they differ most; equal to ``tau_min`` it is constant (code; the paper gives no value)."""
    min_seen: int = 1
    """Graded responses of its own from which on a prompt is known; 0 takes any prediction for knowledge, as an
    estimator needs that generalises instead of counting."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._failure_rates: deque[float] = deque(maxlen=self.window)

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield (
            2 < self.kappa < math.inf,
            f"kappa must be above 2, for a density with a peak, and finite; got {self.kappa}",
        )
        yield self.window >= 1, f"window must be at least 1 step; got {self.window}"
        yield (
            0 < self.tau_min <= self.tau_max < math.inf,
            f"tau_min and tau_max must be positive, in this order, and finite; got {self.tau_min}, {self.tau_max}",
        )
        yield self.min_seen >= 0, f"min_seen must be 0 (every prediction counts) or more; got {self.min_seen}"

    @property
    def alpha(self) -> float:
        """First parameter of the density now; ``kappa - 2`` before any step."""
        if not self._failure_rates:
            return self.kappa - 2.0
        failures = sum(self._failure_rates) / len(self._failure_rates)
        if failures <= 0.5:
            failures = 1.0 / (1.0 + math.exp(-_STEEPNESS * (failures - 0.5)))
        return min(max(1.0 + (self.kappa - 2.0) * failures, 1.0), self.kappa - 1.0)

    def divide(self, beliefs: Sequence[Belief], total: int) -> list[int]:
        """Maximise the summed value; evenly where no prompt is known."""
        is_known = [belief.num_seen >= self.min_seen for belief in beliefs]
        if not any(is_known):
            counts = [0] * len(beliefs)
            spread_evenly(total, counts, range(len(beliefs)), self.n_max)
            return counts
        rates = [belief.seen_rate if known else 0.5 for belief, known in zip(beliefs, is_known, strict=True)]
        return self._by_value(rates, total)

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Note the mean over prompts of the share of failures; a step without evidence is passed over."""
        shares = [pool.num_negative / pool.num_sampled for pool in pools if pool.num_sampled]
        if shares:
            rates = [*self._failure_rates, sum(shares) / len(shares)]  # another queue: open steps keep theirs
            self._failure_rates = deque(rates, maxlen=self.window)

    def state_dict(self) -> dict[str, Any]:
        """Failure rates of the last steps, oldest first."""
        return {"failure_rates": list(self._failure_rates)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._failure_rates = deque(map(float, state["failure_rates"]), maxlen=self.window)

    def _by_value(self, rates: Sequence[float], total: int) -> list[int]:
        """Divide by V alone."""
        from scipy.stats import beta as beta_distribution

        clipped = [min(max(rate, _MARGIN), 1.0 - _MARGIN) for rate in rates]  # nan stays nan, and is refused
        mean = sum(clipped) / len(clipped)
        variance = sum((rate - mean) ** 2 for rate in clipped) / len(clipped)
        tau = self.tau_min + (self.tau_max - self.tau_min) * min(variance / _LARGEST_VARIANCE, 1.0)
        # V(B+1) - V(B) = density * exp(-B v / tau) * (1 - exp(-v / tau)), v = p (1-p)
        kept = [math.exp(-rate * (1.0 - rate) / tau) for rate in clipped]
        densities = beta_distribution.pdf(clipped, self.alpha, self.kappa - self.alpha)
        first = [float(density) * (1.0 - share) for density, share in zip(densities, kept, strict=True)]
        return allocate_by_gain(
            lambda index, n: first[index] * kept[index] ** n,
            total,
            [self.n_min] * len(rates),
            [self.n_max] * len(rates),
        )


COBA_RL = known(
    Recipe(
        name="coba_rl",
        card=Card(
            table="responses",
            changes="gives responses to easy prompts first, to hard ones later",
            needs="pass rates and the mean failure rate",
            cost="8 on average",
            fidelity="faithful to the paper",
            departs=(
                "A Beta-shaped value of the pass rate moves from easy to hard. The code's three classes of difficulty "
                "are not copied. Pass rates are those of the last visits; the code takes the last three."
            ),
        ),
        checked=Comparison(
            rule="the division of its value",
            against="brute force",
            test="unit/methods/sampling/test_planned.py::test_it_is_the_best_of_all_divisions_of_three_prompts",
        ),
        text="""
            CoBA-RL (arXiv:2602.03048): GRPO whose responses go to easy prompts while the policy is weak, and to hard
            ones later. Plans differ from uniform ones once prompts come again, as for the experiment knapsack. Pass
            rates are those of each prompt's last visits. The authors' code takes the last three visits, however long
            ago.
        """,
        estimator=WindowEstimator,
        sampler=CobaSampler,
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
        reduction="token_mean",
    )
)
