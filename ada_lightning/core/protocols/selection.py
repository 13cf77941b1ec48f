"""Which responses train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from ada_lightning.core.records import KeptResponse, ResponsePool

Pruned = Literal["responses", "prompts"]
"""What a selection leaves out by chance."""


@runtime_checkable
class SelectionRule(Protocol):
    """Which responses of a complete pool train, and with which weight.

    It may also define ``bend() -> str``, one line on what it does to the update, for the statement at start, and
    attributes of the class, false where they are missing:

    - ``ranks_by_advantage``: it takes advantages over the whole pool, so they must not be those of what it kept;
    - ``may_drop_a_class``: it may keep positives alone or negatives alone of a pool that has both;
    - ``keeps_what_there_is``: it keeps what there is of a pool, so nobody would keep to a sampler's group size;
    - ``prunes_at_random``: it leaves out single responses or all those of a prompt by chance and weighs the others by
      ``inverse_probability``, so that the expected update is that of whole pools.
    """

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses; an empty tuple drops the prompt."""
        ...


@runtime_checkable
class ScreeningSelection(SelectionRule, Protocol):
    """A selection that drops whole prompts by what their pools say, whether they have a signal or not.

    A step that is filled up with groups that have a signal does not count on those.
    """

    def takes(self, pool: ResponsePool) -> bool:
        """Whether a complete pool is looked at at all. A function of the pool, and nothing that is left to chance."""
        ...


@runtime_checkable
class BatchSelection(Protocol):
    """A selection that looks at all pools of a step before it keeps anything. It may learn."""

    def select_all(self, pools: Sequence[ResponsePool]) -> Sequence[tuple[KeptResponse, ...]]:
        """Return the kept responses of each pool, in the order of the pools; an empty tuple drops the prompt.

        Must be a function of the pools and of what was observed before the step.
        """
        ...

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Learn from the figures of a finished step (:attr:`PolicyModule.update_metrics` and those of its rollout)."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step, as primitives."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        ...
