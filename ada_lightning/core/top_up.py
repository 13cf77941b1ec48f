"""Fills up a step with further prompts, and decides which of its groups train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ada_lightning.core.protocols import Refill, Selection
from ada_lightning.core.records import Belief, Prompt, ResponsePool

Draw = Callable[[int, int], Sequence[tuple[Prompt, Belief]]]
"""``(prompts of the step so far, how many more) -> prompts with their beliefs``; fewer where there are no others. Asked
twice with the same numbers it answers the same: an engine that breaks has its step repeated."""


@dataclass(frozen=True, slots=True)
class Division:
    """The pools of a step by what becomes of them, each list in the order of the prompts."""

    trained: tuple[ResponsePool, ...]
    surplus: tuple[ResponsePool, ...]
    """With a signal, and not needed."""
    all_correct: tuple[ResponsePool, ...]
    all_wrong: tuple[ResponsePool, ...]
    turned_down: tuple[ResponsePool, ...]
    """With a signal, and dropped by the selection."""
    without_evidence: tuple[ResponsePool, ...]
    """No response of theirs counts: none was drawn, or the grader failed."""


@dataclass(frozen=True, slots=True)
class TopUp:
    """A step that is filled up with groups that have a signal."""

    refill: Refill
    num_wanted: int
    """Groups with a signal."""
    draw: Draw
    selection: Selection
    """What is kept of the groups that train; it may turn some down."""

    def counts(self, pool: ResponsePool) -> bool:
        """Whether a complete pool is one of those wanted: it has a signal, and the selection takes it."""
        return self.refill.has_signal(pool) and self.selection.takes(pool)

    def divide(self, pools: Sequence[ResponsePool]) -> Division:
        """Say which pools train: the first so many that count, in the order of the prompts.

        Args:
            pools: of the whole step, complete, in the order of their slots.
        """
        with_signal = tuple(pool for pool in pools if self.refill.has_signal(pool))
        wanted = tuple(pool for pool in with_signal if self.selection.takes(pool))
        slots = {pool.slot for pool in with_signal}
        others = [pool for pool in pools if pool.slot not in slots]
        evident = [pool for pool in others if pool.num_sampled]
        return Division(
            trained=wanted[: self.num_wanted],
            surplus=wanted[self.num_wanted :],
            turned_down=tuple(pool for pool in with_signal if not self.selection.takes(pool)),
            all_correct=tuple(pool for pool in evident if self.refill.is_correct(pool)),
            all_wrong=tuple(pool for pool in evident if not self.refill.is_correct(pool)),
            without_evidence=tuple(pool for pool in others if not pool.num_sampled),
        )


def refill_figures(division: Division, *, num_groups: int, num_drawn: int) -> dict[str, float]:
    """What to log of a step that was filled up, keyed ``rollout/name``.

    Args:
        division: of the step's pools.
        num_groups: that a step is to have.
        num_drawn: prompts that it took.

    Returns:
        ``refilled_prompts``: prompts beyond ``num_groups``. ``filtered_groups``, of which ``filtered_all_correct`` and
        ``filtered_all_wrong`` (the rest had no evidence, or the selection turned them down). ``surplus_groups``: with a
        signal, and not needed. ``trained_groups``. ``signal_share``: groups with a signal that the selection takes over
        those with evidence. ``refill_capped``: 1 where the step has fewer groups than it is to have.
    """
    num_signal = len(division.trained) + len(division.surplus)
    num_others = len(division.all_correct) + len(division.all_wrong) + len(division.turned_down)
    return {
        "rollout/refilled_prompts": float(max(0, num_drawn - num_groups)),
        "rollout/filtered_groups": float(num_others + len(division.without_evidence)),
        "rollout/filtered_all_correct": float(len(division.all_correct)),
        "rollout/filtered_all_wrong": float(len(division.all_wrong)),
        "rollout/surplus_groups": float(len(division.surplus)),
        "rollout/trained_groups": float(len(division.trained)),
        "rollout/signal_share": num_signal / max(num_signal + num_others, 1),
        "rollout/refill_capped": float(len(division.trained) < num_groups),
    }
