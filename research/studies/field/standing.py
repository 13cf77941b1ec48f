"""How methods stand beside the best GRPO, from their learning curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from research.studies.field.reach import (
    Estimate,
    Runs,
    difference,
    final_level,
    level_after,
    nearest_share,
    saving,
    time_scale,
)

GRPO = ("grpo_n4", "grpo_n4_4_updates", "grpo_n8", "grpo_n16")
COSTS = ("generated_tokens", "trained_tokens", "seconds", "updates")
COMPARATOR = {"generated_tokens": "grpo_n4", "seconds": "grpo_n4_4_updates"}
"""By cost, the GRPO whose whole curve the others are held against: one for all of them, whoever is best at a level."""
SHARES = (0.25, 0.5, 1.0)
"""Of the run of the best GRPO, for the levels it is at by then."""


@dataclass(frozen=True)
class Standing:
    """Where a method ends, and what it spends beside the best GRPO."""

    method: str
    num_seeds: int
    level: float
    """Held-out avg@4 at the end, mean over seeds; then the lowest and the highest of them."""
    lowest: float
    highest: float
    gain: Estimate
    """Level minus that of the GRPO that ends highest."""
    savings: Mapping[str, Estimate]
    """By cost: how many times less it spends than the best GRPO to reach the level where GRPO ends."""


def best_grpo(found: Mapping[str, Runs]) -> str:
    """Return the kind of GRPO that ends highest."""
    present = [name for name in GRPO if name in found]
    if not present:
        raise ValueError(f"no run of {', '.join(GRPO)} is done, so there is nothing to compare with; train one first")
    return max(present, key=lambda name: final_level(list(found[name].values())))


def comparison(found: Mapping[str, Runs]) -> list[Standing]:
    """Return how every method stands, the highest first."""
    highest = found[best_grpo(found)]
    bases = [found[name] for name in GRPO if name in found]
    standings = []
    for method, runs in found.items():
        levels = [final_level([run]) for run in runs.values()]
        savings = {cost: saving(bases, runs, cost) for cost in COSTS}
        gain = difference(highest, runs)
        standings.append(Standing(method, len(runs), float(np.mean(levels)), min(levels), max(levels), gain, savings))
    return sorted(standings, key=lambda standing: -standing.level)


@dataclass(frozen=True)
class Milestone:
    """A level on GRPO's way, and what the others spend to reach it."""

    share: float
    """Of its run after which the best GRPO is there: that of the evaluation next to the one asked for."""
    level: float
    """Held-out avg@4."""
    savings: Mapping[str, Mapping[str, Estimate]]
    """By method, then by cost: how many times less it spends than the best GRPO."""


def milestones(found: Mapping[str, Runs]) -> list[Milestone]:
    """Return what it takes to reach the levels where GRPO is after some of its run, and at its end.

    The later the level, the flatter are all curves there and the wider the intervals.
    """
    bases = [found[name] for name in GRPO if name in found]
    return [
        Milestone(
            nearest_share(next(iter(bases[0].values())), share),
            max(level_after(list(runs.values()), share) for runs in bases),
            {
                method: {cost: saving(bases, runs, cost, share=share) for cost in ("generated_tokens", "seconds")}
                for method, runs in found.items()
            },
        )
        for share in SHARES
    ]


def time_scales(found: Mapping[str, Runs]) -> dict[str, dict[str, Estimate]]:
    """Return by method and cost how many times less it spends than the comparator along its whole run."""
    for base in COMPARATOR.values():
        if base not in found:
            raise ValueError(f"no run of {base} is done, with which the others are compared; train one first")
    return {
        method: {cost: time_scale(found[base], runs, cost) for cost, base in COMPARATOR.items()}
        for method, runs in found.items()
    }


@dataclass(frozen=True)
class BinOutcome:
    """What became of the problems of one difficulty."""

    low: float
    high: float
    num_problems: int
    before: float
    """Mean pass rate of the untrained model, from responses that did not choose the bin."""
    gains: Mapping[str, Estimate]
    """By method: mean pass rate after training minus before; over problems and runs."""
    leads: Mapping[str, Estimate]
    """By method: how much more it gains than the first one, on the same problems with the same seeds."""

    @property
    def name(self) -> str:
        """Its starting pass rates in words."""
        return "0" if self.high == 0 else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Effect:
    """What a change did."""

    base: str
    text: str
    level: float
    """Held-out avg@4 at the end, mean over seeds."""
    gain: Estimate
    """Level minus that of the base."""
    saving: Estimate
    """Generated tokens of the base over those of the changed method, to reach the level where the base ends."""
    trained: float
    """Trained tokens over generated ones at the end, mean over seeds."""
    num_seeds: int


def describe(standing: Standing) -> str:
    """Return a line of text."""
    spread = f"{standing.level:.3f} ({standing.lowest:.3f} to {standing.highest:.3f})"
    tokens, seconds = standing.savings["generated_tokens"], standing.savings["seconds"]
    return f"{standing.method:<26} {spread}  tokens {times(tokens)}  seconds {times(seconds)}"


def describe_scales(scales: Mapping[str, Mapping[str, Estimate]]) -> str:
    """Return lines of text: how many times less each method spends along its whole run."""
    return "\n".join(
        [
            "times less along the whole run, and who is 1",
            *(
                f"    {method:<30} tokens {times(of['generated_tokens'])}  seconds {times(of['seconds'])}"
                for method, of in scales.items()
            ),
        ]
    )


def times(estimate: Estimate) -> str:
    """Write a ratio of costs.

    Example:
        >>> times(Estimate(1.5, 1.2, 1.9)), times(Estimate(0.8, 0.5, 1.1, is_bound=True))
        ('1.50 [1.20, 1.90]', 'not reached')
    """
    if estimate.is_bound:
        return "not reached"
    return f"{estimate.value:.2f}{interval(estimate, '.2f')}"


def interval(estimate: Estimate, form: str) -> str:
    """Write an interval in brackets, nothing where a single seed gives none."""
    return "" if math.isnan(estimate.low) else f" [{estimate.low:{form}}, {estimate.high:{form}}]"


def signed(estimate: Estimate) -> str:
    """Write a difference of held-out rates."""
    return f"{estimate.value:+.3f}{interval(estimate, '+.3f')}"
