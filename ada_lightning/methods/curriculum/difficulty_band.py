"""Prompts that are believed to be neither too hard nor too easy."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from ada_lightning.core.checks import unmet
from ada_lightning.core.records import Belief
from ada_lightning.methods.curriculum.ranked import RankedCurriculum


class DifficultyBand(RankedCurriculum):
    """Candidates with a believed pass rate in ``[low, high]`` and candidates never seen; then the nearest to the band.

    How the unseen are explored: one of them is chosen as readily as one in the band, so a run begins in uniform order,
    and what it does not know gets rarer by itself. Put behind the band, half of the prompts would never be tried: a
    step's candidates soon hold enough that are known to be good. What leaves the band is not lost: the share in turn
    visits it again and again, and its belief follows. Within the band no prompt is preferred.

    Args:
        low: lowest believed pass rate of the band.
        high: highest.
        candidate_ratio: as in :class:`~ada_lightning.methods.curriculum.ranked.RankedCurriculum`.
        revisit_ratio: as there.

    Raises:
        ValueError: bounds that are no part of [0, 1], or what the base class rejects; all in one message.

    Source:
        Bae et al., "Online difficulty filtering for reasoning oriented reinforcement learning", arXiv:2504.03380, keep
        prompts with pass rates in a band after sampling them; here history decides before. The default bounds are ours,
        wide because adaptive sampling reaches harder prompts than fixed groups do.

    Example:
        >>> hard, unseen, even = Belief(1, 31, is_seen=True), Belief(), Belief(8, 8, is_seen=True)
        >>> DifficultyBand().rank([hard, unseen, even], random.Random(0))
        [1, 2, 0]
    """

    def __init__(
        self, *, low: float = 0.1, high: float = 0.9, candidate_ratio: float = 4.0, revisit_ratio: float = 0.1
    ) -> None:
        self.low = low
        self.high = high
        super().__init__(candidate_ratio=candidate_ratio, revisit_ratio=revisit_ratio)

    def rank(self, beliefs: Sequence[Belief], generator: random.Random) -> list[int]:
        """Band and unseen, then by distance from the band. Candidates come shuffled, and ties keep their order."""
        distances = [self._distance(belief) if belief.is_seen else 0.0 for belief in beliefs]
        return sorted(range(len(beliefs)), key=distances.__getitem__)

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``share_in_band``: of prompts seen before and believed to lie in the band."""
        in_band = sum(belief.is_seen and self._distance(belief) == 0 for belief in beliefs)
        return {"share_in_band": in_band / max(len(beliefs), 1)}

    def _preference(self) -> str:
        return f"prompts with a believed pass rate in [{self.low:g}, {self.high:g}], and prompts never seen, come first"

    def _errors(self) -> list[str]:
        is_band = 0 <= self.low < self.high <= 1
        bounds = f"{self.low} and {self.high}"
        return unmet((is_band, "curriculum.low and curriculum.high must be 0 <= low < high <= 1", bounds))

    def _distance(self, belief: Belief) -> float:
        """Of the believed pass rate from the band; 0 inside."""
        return max(self.low - belief.mean, belief.mean - self.high, 0.0)
