"""Knapsack RL: divide a step so that prompts are as likely as can be to have a gradient (arXiv:2509.25849).

Equation: max over N of ``sum_i V(N_i, p_i)``, ``V(N, p) = [1 - p^N - (1-p)^N] p (1-p)^2``, ``sum_i N_i = total``,
    ``min_n <= N_i <= max_n``: the chance of a mixed group times what a step gains from it.
Claim: of all divisions of the same total this one is worth most, so fewer groups have rewards that are all equal.
Assumption: the pass rate seen at the last visit still holds; one gradient step raises p by about ``p (1-p)^2``.
Degenerate: prompts not known yet get the mean, those seen to fail or pass always get ``negative_n`` or ``positive_n``,
    and what the rest cannot use goes to those that always failed. In a run's first epoch nothing is known: uniform.
Fidelity: faithful. The division is the exact optimum; the code's dynamic programme has a slip that is not copied.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.options import option
from ada_lightning.core.records import Belief
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.checked import Check
from ada_lightning.methods.estimators.counting import WindowEstimator
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.by_tokens import TokenDividingSampler
from ada_lightning.methods.sampling.marginal_gain import allocate_by_gain, spread_evenly
from ada_lightning.methods.selection import AllSelection

_UNKNOWN = -1.0


@option("sampler", "knapsack", group_size="${.n_max}")
@dataclass(kw_only=True, eq=False)
class KnapsackSampler(TokenDividingSampler):
    """One pass, divided by the chance of a mixed group times what a step gains from it (arXiv:2509.25849).

    A prompt's first visits are uniform, so it needs several epochs, an ``estimator.history_file``, or ``min_seen=0``
    with an estimator that generalises (``gaussian_process``, ``similar_prompts``, ``value_network``).

    This is the full rule of the public code, with its knapsack solved exactly: gains fall, so a greedy division is
    optimal. The code's dynamic programme counts a value of 0 for a prompt that gets nothing above ``n_min``, so it
    gives nearly every effective prompt one response more. That slip is not copied.

    1. Every prompt gets what is due to its kind: ``responses_per_prompt`` if unknown, ``negative_n`` if it never
       passed, ``positive_n`` if it always did, ``n_min`` otherwise ("effective").
    2. Effective prompts demand what gives a mixed group with probability ``mixed_chance``. If more than that is left,
       the surplus goes evenly to prompts that never passed, unknown ones among them, else to those that always did.
    3. The rest goes to effective prompts by their gain in V.

    No prompt gets more than ``n_max``, the surplus included (the code lets it exceed that, and fails where all prompts
    are effective); what has no room goes on to the next step, at last evenly to whoever has room. With ``by_tokens``
    the total, what is due, demanded and left over count by what a response costs, and gains in V by their cost.

    Source:
        liziniu/KnapsackRL at ca5d5f5: ``verl/trainer/ppo/exploration_utils.py``; settings of its
        ``run_knapsack_grpo_7b.sh``.

    Example:
        >>> sampler = KnapsackSampler(responses_per_prompt=8)
        >>> never, seldom, often = (Belief(1.0, 1.0, 16.0, seen) for seen in (0.0, 2.0, 12.0))
        >>> sampler.divide([never, seldom, often], 24)
        [2, 15, 7]
    """

    n_min: int = 2
    """Fewest responses of an effective prompt."""
    n_max: int = 128
    negative_n: int = 2
    """Responses of a prompt that never passed, before any surplus."""
    positive_n: int = 2
    """Responses of a prompt that always passed, before any surplus."""
    min_seen: int = 8
    """Graded responses of its own from which on a prompt is known; 0 takes any prediction for knowledge, as an
    estimator needs that generalises instead of counting."""
    mixed_chance: float = 0.9
    """Probability of a mixed group that an effective prompt demands (the paper's alpha)."""
    group_size: int = 128

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        for name, value in (("negative_n", self.negative_n), ("positive_n", self.positive_n)):
            yield (
                1 <= value <= self.responses_per_prompt,
                f"{name} must be in [1, responses_per_prompt = {self.responses_per_prompt}], or a step of such prompts "
                f"would exceed its total; got {value}",
            )
        yield self.min_seen >= 0, f"min_seen must be 0 (every prediction counts) or more; got {self.min_seen}"
        yield 0 < self.mixed_chance < 1, f"mixed_chance must be in (0, 1); got {self.mixed_chance}"

    def divide(self, beliefs: Sequence[Belief], total: int, costs: Sequence[float] | None = None) -> list[int]:
        """Apply the three steps."""
        rates = [belief.seen_rate if belief.num_seen >= self.min_seen else _UNKNOWN for belief in beliefs]
        for index, rate in enumerate(rates):
            if math.isnan(rate):
                raise ValueError(f"the pass rate of prompt {index} is nan: is what its estimator counts?")
        counts = [self._due(rate) for rate in rates]
        effective = [index for index, rate in enumerate(rates) if 0 < rate < 1]
        others = [index for index, rate in enumerate(rates) if rate <= 0] or [
            index for index, rate in enumerate(rates) if rate == 1
        ]
        prices: Sequence[float] = [1] * len(rates) if costs is None else costs
        demand = sum(prices[i] * math.floor(min(self.n_max, self._demand(rates[i]))) for i in effective)
        rest = total - sum(map(operator.mul, prices, counts))
        rest -= spread_evenly(max(0, rest - demand), counts, others, self.n_max, costs=costs)
        rest -= self._invest(rest, effective, rates, counts, costs)
        spread_evenly(max(0, rest), counts, range(len(counts)), self.n_max, costs=costs)
        return counts

    def _due(self, rate: float) -> int:
        if rate == _UNKNOWN:
            return self.responses_per_prompt
        return self.negative_n if rate == 0 else self.positive_n if rate == 1 else self.n_min

    def _demand(self, rate: float) -> float:
        """Responses after which the larger of p^N and (1-p)^N is ``1 - mixed_chance``; infinite where rounding ends."""
        log_larger = math.log(max(rate, 1.0 - rate))
        return math.log(1.0 - self.mixed_chance) / log_larger if log_larger else math.inf

    def _invest(
        self,
        rest: float,
        effective: Sequence[int],
        rates: Sequence[float],
        counts: list[int],
        costs: Sequence[float] | None,
    ) -> float:
        """Give effective prompts what maximises the sum of V; return how much that was."""
        prices: Sequence[float] = [1] * len(effective) if costs is None else [costs[index] for index in effective]
        planned = allocate_by_gain(
            lambda position, n: self._gain(rates[effective[position]], n),
            min(rest, sum(prices) * (self.n_max - self.n_min)) + sum(prices) * self.n_min,
            [self.n_min] * len(effective),
            [self.n_max] * len(effective),
            costs=None if costs is None else prices,
        )
        for index, count in zip(effective, planned, strict=True):
            counts[index] = count
        return sum(map(operator.mul, prices, planned)) - sum(prices) * self.n_min

    def _gain(self, rate: float, num_responses: int) -> float:
        """What one more response adds to V, without the cancellation."""
        worth = rate * (1.0 - rate) ** 2
        return worth * (rate**num_responses * (1.0 - rate) + (1.0 - rate) ** num_responses * rate)


KNAPSACK = known(
    Recipe(
        name="knapsack",
        card=Card(
            table="responses",
            changes="divides a fixed total by P(mixed group) x p (1 - p)^2",
            needs="pass rates of the last visit",
            cost="8 on average",
            fidelity="faithful",
            departs=(
                "The division is the exact optimum. The code's dynamic programme has a slip at k = 0, which is not "
                "copied."
            ),
        ),
        checked=Comparison(
            rule="the division is worth as much as the code's dynamic programme without its slip",
            against="their loop, rewritten",
            test="unit/methods/sampling/test_knapsack.py::test_the_division_is_worth_as_much_as_the_best_one",
        ),
        text="""
            Knapsack RL (arXiv:2509.25849): GRPO whose responses go to prompts that will probably have both right and
            wrong ones. Plans differ from uniform ones once prompts come again. So give it more than one epoch
            (num_steps x data.prompts_per_step above the number of prompts), or estimator.history_file with the pass
            rates that prepare.py measured.
        """,
        estimator=WindowEstimator,
        sampler=KnapsackSampler,
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
        reduction="token_mean",
    )
)
