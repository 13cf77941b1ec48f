"""What other group sizes, and other rules of who trains, would have given on the same control groups.

Each group has n responses that were drawn alike, so every order of them is equally likely. For any smaller group size
the expected result is a sum over these orders, exact and without a model. All rules are tried on the same groups, so
their differences have little noise.

The unit is the comparison: information about the direction from wrong to right. It is ``(p q)^2 / v``, where v is the
variance of an unbiased estimate of the gradient of the pass rate, for scores of length 1. So n responses with their
group's mean as baseline give ``(n - 1) p q``. One response with the baseline p gives ``p q``. With the baseline 0 only
right ones train, and it gives ``p q^2``; with the baseline 1 only wrong ones train, and it gives ``p^2 q``.

It advises; nothing switches on it. Responses of one prompt share part of their gradient, and an engine that is not full
generates eight responses for little more than four. Neither is in these figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.core.stopping import FixedRule, PilotRule, StoppingRule
from ada_lightning.core.stopping.outcomes import exact_outcome
from ada_lightning.methods.curriculum.trial import FADING, GroupResult

FEWEST_GROUPS = 64.0
"""Control groups, faded, before anything is advised (ours)."""
CLEARLY = 1.1
"""What a rule must be worth, as a multiple of the run's own, to be advised (ours)."""


@dataclass(frozen=True, slots=True)
class _Yield:
    """Expected comparisons, responses generated and responses trained, of one prompt."""

    comparisons: float
    generated: float
    trained: float


def rarer_class(num_positive: int, num_negative: int, *, trains_right: bool) -> float:
    """Return the unbiased estimate of ``p q^2`` (right ones train), or of ``p^2 q`` (wrong ones train).

    Args:
        num_positive: right responses of a group of at least three (a).
        num_negative: wrong ones (b).
        trains_right: whether right responses are the ones that train.

    Example:
        >>> rarer_class(1, 3, trains_right=True), rarer_class(1, 3, trains_right=False)
        (0.25, 0.0)
    """
    a, b = num_positive, num_negative
    total = a + b
    many = b if trains_right else a
    return a * b * (many - 1) / (total * (total - 1) * (total - 2))


def yields(num_positive: int, num_negative: int, *, is_hard: bool) -> dict[str, _Yield]:
    """Return what each rule is expected to give for a prompt with these counts.

    Args:
        num_positive: right responses of a complete group (a).
        num_negative: wrong ones (b).
        is_hard: whether its pass rate is believed to be below 1/2: which class is the rarer one.

    Returns:
        By name: ``n_2``, ``n_4``, ... up to the group's size, ``screened`` (half of the group, the rest where the
        first half differs), ``rarer_class`` (one response, trained if it is of the class believed to be rarer).
    """
    total = num_positive + num_negative
    found = {}
    for n in (size for size in (2, 4, 8, 16) if size < total):
        found[f"n_{n}"] = _of_rule(FixedRule(n), num_positive, num_negative)
    found[f"n_{total}"] = _of_rule(FixedRule(total), num_positive, num_negative)
    if total >= 4:
        half = total // 2
        sizes = (half, *[total] * (half - 1), half)
        found["screened"] = _of_rule(PilotRule(sizes), num_positive, num_negative)
    if total >= 3:
        trained = (num_positive if is_hard else num_negative) / total
        found["rarer_class"] = _Yield(rarer_class(num_positive, num_negative, trains_right=is_hard), 1.0, trained)
    return found


def _of_rule(rule: StoppingRule, num_positive: int, num_negative: int) -> _Yield:
    outcome = exact_outcome(rule, num_positive, num_negative)
    return _Yield(outcome.comparisons, outcome.positives + outcome.negatives, outcome.rows)


class Alternatives:
    """Running sums of what each rule would have given on the control groups, the latest counting most."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}
        self._groups = 0.0

    def observe(self, control: Sequence[GroupResult], *, group_size: int, is_hard: Sequence[bool]) -> None:
        """Learn from a step's control groups; those that are not complete are left out.

        Args:
            control: groups of prompts that were drawn uniformly.
            group_size: responses of a complete one (n).
            is_hard: of each, whether its pass rate was believed to be below 1/2 before the step.
        """
        self._groups *= FADING
        for sums in self._sums.values():
            sums[:] = [FADING * value for value in sums]
        for result, hard in zip(control, is_hard, strict=True):
            a, b = result.num_positive, result.num_negative
            if a + b != group_size:
                continue
            self._groups += 1.0
            for name, rule in yields(a, b, is_hard=hard).items():
                sums = self._sums.setdefault(name, [0.0, 0.0, 0.0])
                sums[:] = [sums[0] + rule.comparisons, sums[1] + rule.generated, sums[2] + rule.trained]

    def worths(self, cost_ratio: float) -> dict[str, float]:
        """Return the comparisons of each rule by its cost, ``generated + cost_ratio * trained`` responses.

        Args:
            cost_ratio: cost of a trained token in generated ones.
        """
        return {
            name: gave / (generated + cost_ratio * trained)
            for name, (gave, generated, trained) in self._sums.items()
            if generated > 0
        }

    def better_rules(self, cost_ratio: float, *, group_size: int) -> dict[str, float]:
        """Return the rules that are clearly worth more than the run's own, the best first, as multiples of it."""
        worths = self.worths(cost_ratio)
        own = worths.get(f"n_{group_size}", 0.0)
        if self._groups < FEWEST_GROUPS or own <= 0:
            return {}
        found = {name: worth / own for name, worth in worths.items() if worth >= CLEARLY * own}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def state_dict(self) -> dict[str, Any]:
        """All that was added up, as JSON holds it."""
        return {"groups": self._groups, "sums": {name: list(sums) for name, sums in self._sums.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._groups = state["groups"]
        self._sums = {name: list(sums) for name, sums in state["sums"].items()}
