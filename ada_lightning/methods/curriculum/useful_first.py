"""What curricula share that rank candidates by what a visit is worth at some pass rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ada_lightning.core.protocols import Usefulness
from ada_lightning.core.records import Belief
from ada_lightning.methods.curriculum.ranked import RankedCurriculum


class UsefulFirst(RankedCurriculum):
    """A ranking by usefulness.

    Args:
        usefulness: what a pass rate is worth.
        candidate_ratio: as in :class:`~ada_lightning.methods.curriculum.ranked.RankedCurriculum`.
        revisit_ratio: as there.

    Raises:
        ValueError: what the base class rejects.
    """

    def __init__(self, *, usefulness: Usefulness, candidate_ratio: float = 4.0, revisit_ratio: float = 0.1) -> None:
        self.usefulness = usefulness
        super().__init__(candidate_ratio=candidate_ratio, revisit_ratio=revisit_ratio)

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``usefulness``: mean over the prompts, each at its expected pass rate."""
        values = self.usefulness([belief.mean for belief in beliefs])
        return {"usefulness": sum(values) / max(len(values), 1)}
