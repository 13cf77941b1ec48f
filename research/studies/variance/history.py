"""Rules that know one visit of 8 responses to each prompt: who gets how many, and which baseline that gives.

What the visit told is a count k of positives, and the posterior is Beta(alpha + k, beta + 8 - k) under the prior that
the project fits to all prompts (:func:`~ada_lightning.methods.estimators.pooled_prior.fit_pooled_prior`). A plan is a
function of k, so expectations over the visit are sums of nine terms. The visit's own cost is not counted: it trained,
when it was made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.stats import binom

from ada_lightning.core.records import Belief
from ada_lightning.core.stopping.paths import ends as ends_of
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.advantages import ExactAdvantage
from ada_lightning.methods.estimators.pooled_prior import fit_pooled_prior
from ada_lightning.methods.objectives import LinearObjective
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from research.benchmarks.allocators import sampler_of
from research.benchmarks.expected_update import Ends
from research.benchmarks.simulation.pass_rates import Mix
from research.studies.variance.rules import of_method
from research.studies.variance.update_moments import (
    Array,
    UpdateMoments,
    ends_with,
    fixed_weight,
    update_moments,
    weights_of,
)

VISIT = 8
"""Responses of the visit."""
NUM_PLANNED = 512
"""Prompts of the step that a sampler divides."""


@dataclass(frozen=True)
class Part:
    """What befalls a share of the prompts with one count."""

    share: float
    """Of these prompts; what is left over is not sampled."""
    ends: Ends
    weight: float = 1.0
    """Multiplies every advantage."""


Plan = Mapping[int, Sequence[Part]]
"""By positives of the visit."""


def planned_moments(plan: Plan, rates_P: Array) -> UpdateMoments:
    """Return a plan's expectations by pass rate, over the visit and the step."""
    total: UpdateMoments | None = None
    known: dict[int, UpdateMoments] = {}
    for count, parts in plan.items():
        chance_P = binom.pmf(count, VISIT, rates_P)
        for part in parts:
            if id(part.ends) not in known:
                known[id(part.ends)] = update_moments(part.ends, rates_P)
            moments = _weighted(known[id(part.ends)], part.weight).scaled(part.share * chance_P)
            total = moments if total is None else total + moments
    assert total is not None
    return total


def beliefs(mix: Mix) -> list[Belief]:
    """Return what is believed after the visit, by its positives."""
    outcomes = [(count, VISIT) for count, number in enumerate(_planned_counts(mix)) for _ in range(number)]
    prior = fit_pooled_prior(outcomes)
    return [
        Belief(prior.alpha + count, prior.beta + VISIT - count, float(VISIT), float(count))
        for count in range(VISIT + 1)
    ]


def visit_chance(mix: Mix) -> Array:
    """Return the probability of each count in a visit to a random prompt. Shape ``(9,)``."""
    rates_P, weights_P = mix.grid(), weights_of(mix)
    return np.array([float(weights_P @ binom.pmf(count, VISIT, rates_P)) for count in range(VISIT + 1)])


def divided(name: str, mix: Mix) -> Plan:
    """Return how a sampler of ``research/benchmarks/allocators.py`` divides a step, with the exact estimator of p."""
    numbers = _planned_counts(mix)
    believed = beliefs(mix)
    counts_of_prompts = [count for count, number in enumerate(numbers) for _ in range(number)]
    responses = sampler_of(name).divide([believed[count] for count in counts_of_prompts], VISIT * NUM_PLANNED)  # type: ignore[attr-defined]
    tables = {n: leave_one_out(n) for n in set(responses) if n > 0}
    plan: dict[int, list[Part]] = {}
    for count, number in enumerate(numbers):
        sizes = Counter(n for own, n in zip(counts_of_prompts, responses, strict=True) if own == count and n > 0)
        plan[count] = [Part(times / number, tables[n]) for n, times in sizes.items()]
    return plan


def leave_one_out(size: int) -> Ends:
    """Return the ends of a fixed number of responses with the exact estimator of p; nothing trains of a single one."""
    if size < 2:
        return _nothing()
    return of_method(UniformSampler(group_size=size), AllSelection(), ExactAdvantage(objective=LinearObjective()))


def shrunk_leave_one_out(size: int, belief: Belief) -> Ends:
    """Return the ends where the baseline of a response is the posterior mean given the others and the visit.

    Unbiased for p, since the baseline does not depend on the response, also with a single response.
    """
    points = np.array(list(ends_of(FixedRule(size))), dtype=np.float64)
    strength = belief.alpha + belief.beta + size - 1
    of_positive_E = 1.0 - (belief.alpha + points[:, 0] - 1) / strength
    of_negative_E = -(belief.alpha + points[:, 0]) / strength
    return ends_with(FixedRule(size), of_positive_E / size, of_negative_E / size)


def rounded_leave_one_out(size: int) -> Ends:
    """Return the ends where the baseline of a response is the mean of the others, rounded to 0 or 1.

    A baseline of 0 gives negatives no advantage and one of 1 gives positives none: the class that is rarer among the
    others trains alone. Unbiased for p. A mean of 1/2 stays what it is.
    """
    points = np.array(list(ends_of(FixedRule(size))), dtype=np.float64)
    of_positive_E = 1.0 - _rounded((points[:, 0] - 1) / (size - 1))
    of_negative_E = -_rounded(points[:, 0] / (size - 1))
    return _kept_where_weighed(ends_with(FixedRule(size), of_positive_E / size, of_negative_E / size))


def rarer_class(belief: Belief) -> Ends:
    """Return the ends of one response with the baseline 0 or 1, whichever is nearer to what is expected."""
    return _kept_where_weighed(fixed_weight(FixedRule(1), float(belief.mean > 0.5)))


def in_proportion(mix: Mix, wanted: Callable[[Belief], float], *, weighs: bool) -> Plan:
    """Return a plan of single responses, drawn for a prompt with a probability in proportion to ``wanted``."""
    believed = beliefs(mix)
    shares = np.array([wanted(belief) for belief in believed])
    shares = shares / shares.max()
    return {
        count: [Part(float(share), shrunk_leave_one_out(1, belief), 1.0 / float(share) if weighs else 1.0)]
        for count, (share, belief) in enumerate(zip(shares, believed, strict=True))
    }


def best_share(mix: Mix, share: float, size: int) -> Plan:
    """Return a plan that samples the prompts with the largest expected ``p q``, all others not at all."""
    believed, chance_C = beliefs(mix), visit_chance(mix)
    useful_C = np.array([expected_spread(belief) for belief in believed])
    plan: dict[int, list[Part]] = {}
    left = share
    for count in np.argsort(-useful_C, kind="stable"):
        taken = min(left, chance_C[count])
        left -= taken
        plan[int(count)] = [Part(float(taken / chance_C[count]), shrunk_leave_one_out(size, believed[count]))]
    return plan


def everyone(mix: Mix, make: Callable[[Belief], Ends]) -> Plan:
    """Return a plan that treats every prompt by its belief alone."""
    return {count: [Part(1.0, make(belief))] for count, belief in enumerate(beliefs(mix))}


def expected_spread(belief: Belief) -> float:
    """Return E[p q] under a belief."""
    strength = belief.alpha + belief.beta
    return belief.alpha * belief.beta / (strength * (strength + 1))


def history_plans() -> dict[str, Callable[[Mix], Plan]]:
    """Return every rule with a memory, by name; all of them are unbiased for p except where a share is taken."""
    plans: dict[str, Callable[[Mix], Plan]] = {
        "baseline from history, 1 response": partial(everyone, make=partial(shrunk_leave_one_out, 1)),
        "rarer class by history, 1 response": partial(everyone, make=rarer_class),
        "n by sqrt(p q), weighted back": partial(in_proportion, wanted=_expected_deviation, weighs=True),
        "n by p q, not weighted back": partial(in_proportion, wanted=expected_spread, weighs=False),
    }
    for size in (2, 4, 8):
        name = f"baseline from history and the others, {size} responses"
        plans[name] = partial(everyone, make=partial(shrunk_leave_one_out, size))
    for share, label in ((0.5, "half"), (0.25, "quarter")):
        for size, responses in ((1, "1 response"), (4, "4 responses")):
            plans[f"best {label} by history, {responses}"] = partial(best_share, share=share, size=size)
    for name in ("Ada-Est", "VIP, RLOO", "Knapsack", "CoBA-RL"):
        plans[f"{name}, 8 on average"] = partial(divided, name)
    return plans


def _expected_deviation(belief: Belief) -> float:
    return math.sqrt(expected_spread(belief))


def _planned_counts(mix: Mix) -> list[int]:
    """Prompts of a step by the positives of their visit, at the mix's own expectation (largest remainders)."""
    expected_C = NUM_PLANNED * visit_chance(mix)
    numbers_C = np.floor(expected_C).astype(int)
    for count in np.argsort(numbers_C - expected_C, kind="stable")[: NUM_PLANNED - int(numbers_C.sum())]:
        numbers_C[count] += 1
    return [int(number) for number in numbers_C]


def _weighted(moments: UpdateMoments, weight: float) -> UpdateMoments:
    values = dict(vars(moments))
    values["signal_P"] = weight * moments.signal_P
    for name in ("signal_square_P", "positive_noise_P", "negative_noise_P"):
        values[name] = weight**2 * values[name]
    return UpdateMoments(**values)


def _rounded(means_E: Array) -> Array:
    return np.where(means_E == 0.5, 0.5, (means_E > 0.5).astype(np.float64))


def _kept_where_weighed(ends: Ends) -> Ends:
    """Drop a class that has no advantage at an end: it trains nothing."""
    values = dict(vars(ends))
    values["positive_kept_E"] = ends.positive_kept_E * (ends.positive_sums_E != 0)
    values["negative_kept_E"] = ends.negative_kept_E * (ends.negative_sums_E != 0)
    return Ends(**values)


def _nothing() -> Ends:
    """A single response without a memory: it has no baseline, and does not train."""
    return ends_with(FixedRule(1), np.zeros(2), np.zeros(2))
