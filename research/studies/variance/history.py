"""Rules that know one visit of 8 responses to each prompt: who gets how many, and which baseline that gives.

What the visit told is a count k of positives, and the posterior is Beta(alpha + k, beta + 8 - k) under the prior that
the project fits to all prompts (:func:`~ada_lightning.methods.estimators.beta_history.fit_pooled_prior`). A plan is a
function of k, so expectations over the visit are sums of nine terms. The visit's own cost is not counted: it trained,
when it was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from scipy.stats import binom

from ada_lightning.core.records import Belief
from ada_lightning.core.stopping.paths import ends as ends_of
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.estimators.beta_history import fit_pooled_prior
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import AllSelection
from research.benchmarks.allocators import sampler_of
from research.benchmarks.expected_update import Ends
from research.benchmarks.simulation.pass_rates import Mix
from research.studies.variance.rules import EXACT_P, of_method
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
            moments = known[id(part.ends)].scaled(part.share * chance_P)
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


def divided(mix: Mix, name: str) -> Plan:
    """Return how a sampler of ``research/benchmarks/allocators.py`` divides a step, with the exact estimator of p."""
    numbers, believed = _planned_counts(mix), beliefs(mix)
    counts_of_prompts = [count for count, number in enumerate(numbers) for _ in range(number)]
    responses = _sampler(name).divide([believed[count] for count in counts_of_prompts], VISIT * NUM_PLANNED)  # type: ignore[attr-defined]
    tables = {n: leave_one_out(n) for n in set(responses) if n > 0}
    plan: dict[int, list[Part]] = {}
    for count, number in enumerate(numbers):
        sizes = Counter(n for own, n in zip(counts_of_prompts, responses, strict=True) if own == count and n > 0)
        plan[count] = [Part(times / number, tables[n]) for n, times in sizes.items()]
    return plan


@cache
def leave_one_out(size: int) -> Ends:
    """Return the ends of a fixed number of responses with the exact estimator of p; nothing trains of a single one."""
    if size < 2:
        return ends_with(FixedRule(1), np.zeros(2), np.zeros(2))
    return of_method(UniformSampler(group_size=size), AllSelection(), EXACT_P)


def shrunk_leave_one_out(belief: Belief, size: int) -> Ends:
    """Return the ends where the baseline of a response is the posterior mean given the others and the visit.

    Unbiased for p, since the baseline does not depend on the response, also with a single response.
    """
    positives_E = np.array(list(ends_of(FixedRule(size))), dtype=np.float64)[:, 0]
    strength = belief.alpha + belief.beta + size - 1
    of_positive_E = 1.0 - (belief.alpha + positives_E - 1) / strength
    return ends_with(FixedRule(size), of_positive_E / size, -(belief.alpha + positives_E) / strength / size)


def rarer_class(belief: Belief) -> Ends:
    """Return the ends of one response with the baseline 0 or 1, whichever is nearer to what is expected."""
    return fixed_weight(FixedRule(1), float(belief.mean > 0.5))


def best_share(mix: Mix, share: float, size: int) -> Plan:
    """Return a plan that samples the prompts with the largest expected ``p q``, all others not at all."""
    believed, chance_C = beliefs(mix), visit_chance(mix)
    plan: dict[int, list[Part]] = {}
    left = share
    for count in np.argsort([-expected_spread(belief) for belief in believed], kind="stable"):
        taken = min(left, chance_C[count])
        left -= taken
        plan[int(count)] = [Part(float(taken / chance_C[count]), shrunk_leave_one_out(believed[count], size))]
    return plan


def everyone(mix: Mix, make: Callable[[Belief], Ends]) -> Plan:
    """Return a plan that treats every prompt by its belief alone."""
    return {count: [Part(1.0, make(belief))] for count, belief in enumerate(beliefs(mix))}


def expected_spread(belief: Belief) -> float:
    """Return E[p q] under a belief."""
    strength = belief.alpha + belief.beta
    return belief.alpha * belief.beta / (strength * (strength + 1))


PLANS: Mapping[str, Callable[[Mix], Plan]] = {
    "VIP": partial(divided, name="VIP, RLOO"),
    "1 response, baseline from history": partial(everyone, make=partial(shrunk_leave_one_out, size=1)),
    "4 responses, baseline from history and the others": partial(everyone, make=partial(shrunk_leave_one_out, size=4)),
    "1 response, rarer class by history trains": partial(everyone, make=rarer_class),
    "best quarter by history, 1 response": partial(best_share, share=0.25, size=1),
    "best quarter by history, 4 responses": partial(best_share, share=0.25, size=4),
}
"""Every rule with a memory, by name; all are unbiased for p except where a share is taken."""


_sampler = cache(sampler_of)
"""Composed once: dividing a step leaves a sampler as it was."""


def _planned_counts(mix: Mix) -> list[int]:
    """Prompts of a step by the positives of their visit, at the mix's own expectation (largest remainders)."""
    expected_C = NUM_PLANNED * visit_chance(mix)
    numbers_C = np.floor(expected_C).astype(int)
    for count in np.argsort(numbers_C - expected_C, kind="stable")[: NUM_PLANNED - int(numbers_C.sum())]:
        numbers_C[count] += 1
    return [int(number) for number in numbers_C]
