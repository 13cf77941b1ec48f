"""Which responses train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ada_lightning.core.protocols.part import Part
from ada_lightning.core.records import KeptResponse, ResponsePool


class Selection(Part):
    """Which responses of complete pools train, and with which weight. Define ``select`` or ``select_all``."""

    @property
    def within(self) -> Selection:
        """The selection that chooses responses: another one where this only drops whole pools before it."""
        return self

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses of a pool; an empty tuple drops the prompt."""
        raise NotImplementedError(f"{type(self).__name__} compares the pools of a step")

    def select_all(self, pools: Sequence[ResponsePool]) -> Sequence[tuple[KeptResponse, ...]]:
        """Return the kept responses of each pool, in the order of the pools.

        Must be a function of the pools and of what was learned before the step. One that looks at them together has
        :attr:`Trait.COMPARES_POOLS`.
        """
        return [self.select(pool) for pool in pools]

    def takes(self, pool: ResponsePool) -> bool:
        """Whether a complete pool is looked at at all: a function of the pool, with nothing left to chance.

        A step that is filled up with groups that have a signal does not count on the others.
        """
        return True

    def learn(self, metrics: Mapping[str, float]) -> None:
        """Learn from the figures of a finished step (:attr:`PolicyModule.update_metrics` and those of its rollout)."""
