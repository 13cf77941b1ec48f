"""From one step to the next: how many groups a step still wants, and what becomes of those it did not need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ada_lightning.core.plain import from_plain, to_plain
from ada_lightning.core.protocols import Refill, Selection
from ada_lightning.core.records import ResponsePool
from ada_lightning.rollout.top_up import Division, Draw, TopUp


class Refilling:
    """What a run that fills its steps up remembers: groups with a signal that the last step did not need.

    They train in the next step or not at all, so none is older than one policy version. A step that is repeated finds
    the same ones: they change when a step is done (:meth:`commit`) and not before.

    Args:
        refill: whether and how steps are filled up.
        selection: what is kept of the groups that train.
    """

    def __init__(self, refill: Refill, selection: Selection) -> None:
        self.refill = refill
        self._selection = selection
        self._surplus: tuple[ResponsePool, ...] = ()
        self._next_surplus: tuple[ResponsePool, ...] = ()

    def carried(self, num_groups: int) -> tuple[ResponsePool, ...]:
        """Return the pools of the last step that train in this one.

        Args:
            num_groups: that a step is to have.
        """
        return self._surplus[:num_groups]

    def top_up(self, num_groups: int, draw: Draw) -> TopUp:
        """Say what this step wants beside what is carried.

        Args:
            num_groups: that a step is to have.
            draw: gives further prompts.
        """
        return TopUp(self.refill, num_groups - len(self.carried(num_groups)), draw, self._selection)

    def note(self, division: Division) -> None:
        """Remember what a step has left over, until it is done or repeated."""
        self._next_surplus = division.surplus if self.refill.keep_surplus else ()

    def commit(self) -> None:
        """The step is done."""
        self._surplus, self._next_surplus = self._next_surplus, ()

    def state_dict(self) -> dict[str, Any]:
        """What is carried into the step that comes, or is under way."""
        return {"surplus": [to_plain(pool) for pool in self._surplus]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._surplus = tuple(from_plain(pool) for pool in state.get("surplus", ()))


def refill_figures(
    division: Division, *, num_wanted: int, num_groups: int, num_drawn: int, carried: Sequence[ResponsePool]
) -> dict[str, float]:
    """What to log of a step that was filled up, keyed ``rollout/name``.

    Args:
        division: of the step's pools.
        num_wanted: groups with a signal that were to be sampled.
        num_groups: that a step is to have.
        num_drawn: prompts that it took.
        carried: from the step before.

    Returns:
        ``refilled_prompts``: prompts beyond ``num_groups``. ``filtered_groups``, of which ``filtered_all_correct`` and
        ``filtered_all_wrong`` (the rest had no evidence, or the selection turned them down). ``surplus_groups``: with a
        signal, and not needed. ``carried_groups``. ``trained_groups``. ``signal_share``: groups with a signal that the
        selection takes over those with evidence.
        ``refill_capped``: 1 where the step has fewer groups than it is to have.
    """
    num_signal = len(division.trained) + len(division.surplus)
    num_others = len(division.all_correct) + len(division.all_wrong) + len(division.turned_down)
    return {
        "rollout/refilled_prompts": float(max(0, num_drawn - num_groups)),
        "rollout/filtered_groups": float(num_others + len(division.without_evidence)),
        "rollout/filtered_all_correct": float(len(division.all_correct)),
        "rollout/filtered_all_wrong": float(len(division.all_wrong)),
        "rollout/surplus_groups": float(len(division.surplus)),
        "rollout/carried_groups": float(len(carried)),
        "rollout/trained_groups": float(len(division.trained) + len(carried)),
        "rollout/signal_share": num_signal / max(num_signal + num_others, 1),
        "rollout/refill_capped": float(len(division.trained) < num_wanted),
    }
