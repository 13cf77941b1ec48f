"""More responses of a prompt that was never seen: a measurement that the run itself pays for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.protocols import PoolEnd
from ada_lightning.core.records import ResponsePool
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.sampling.uniform import UniformSampler


@dataclass(kw_only=True, eq=False)
class FirstVisitSampler(UniformSampler):
    """Draws ``num_first`` responses of a prompt never seen before, and ``group_size`` of every other.

    All of them count as drawn, in figures and budgets, as those of a calibration before the run do not. With
    ``selection=seen`` first visits measure alone, and with ``curriculum.unseen_first=true`` they come before everything
    else: then the policy that is measured is the initial one, but for the last step of it.

    Raises:
        ValueError: a number below 1.

    Source:
        SPO, arXiv:2509.13232, measures the initial policy by 8 responses of every prompt, outside of its budget.
    """

    num_first: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.samples_per_round = max(self.num_first, self.group_size)

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield from at_least(1, num_first=self.num_first)

    def num_to_draw(self, pool: ResponsePool) -> int:
        """The whole visit, then nothing."""
        return max(0, self._size(pool) - pool.num_drawn)

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Stop at the size of the visit, which is fixed before its first response."""
        return PoolEnd(FixedRule(self._size(pool)))

    def _size(self, pool: ResponsePool) -> int:
        return self.group_size if pool.belief.is_seen else self.num_first
