"""The most useful prompts that are also unlike each other (GPS's batch diversity)."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.checks import unmet
from ada_lightning.core.protocols import PromptEmbedding, Usefulness
from ada_lightning.core.records import Belief, Prompt
from ada_lightning.methods.curriculum.expected_usefulness import ExpectedUsefulness


class DiverseUsefulness(ExpectedUsefulness):
    """Takes candidates one after the other, each the one with the largest ``u + weight * distance``.

    u is the expected usefulness and the distance the Euclidean one to the nearest candidate taken before. Beliefs that
    rest on like prompts (``estimator=similar_prompts``) make whole clusters of prompts look useful at once; a step of
    one cluster learns from one kind of prompt. With weight 0 it is
    :class:`~ada_lightning.methods.curriculum.expected_usefulness.ExpectedUsefulness`.

    Args:
        usefulness: what a pass rate is worth.
        embedding: where prompts lie; fitted to all training prompts when it is first asked.
        weight: of a distance of 1, in units of usefulness.
        candidate_ratio: as in :class:`~ada_lightning.methods.curriculum.ranked.RankedCurriculum`.
        revisit_ratio: as there.

    Raises:
        ValueError: ``weight`` negative or not finite, an embedding that needs the policy, or what the base class
            rejects; all in one message.

    Source:
        After GPS, arXiv:2602.01970, which adds the spread within a batch, and the distance to earlier batches, to what
        it chooses by; its weight and distance are not known here, and earlier batches are left out.
    """

    def __init__(
        self,
        *,
        usefulness: Usefulness,
        embedding: PromptEmbedding,
        weight: float = 0.05,
        candidate_ratio: float = 4.0,
        revisit_ratio: float = 0.1,
    ) -> None:
        self.embedding = embedding
        self.weight = weight
        self._is_fitted = False
        self._places_CH: NDArray[np.float64] = np.empty((0, 0))
        super().__init__(usefulness=usefulness, candidate_ratio=candidate_ratio, revisit_ratio=revisit_ratio)

    def look_at(self, candidates: Sequence[Prompt], prompts: Sequence[Prompt]) -> None:
        """Find out where the candidates lie."""
        if not self._is_fitted:
            self.embedding.fit(prompts)
            self._is_fitted = True
        if candidates:
            self._places_CH = self.embedding(candidates, _no_policy).numpy().astype(np.float64)

    def rank(self, beliefs: Sequence[Belief], generator: random.Random) -> list[int]:
        """Take them greedily, all of them; of equal ones the earlier."""
        return greedily_spread(self._expected(beliefs), self._places_CH, self.weight) if beliefs else []

    def _preference(self) -> str:
        return f"{super()._preference()}, and those unlike others of the step"

    def _errors(self) -> list[str]:
        embedding = type(self.embedding).__name__
        return super()._errors() + unmet(
            (0 <= self.weight < math.inf, "curriculum.weight must be 0 or positive, and finite", self.weight),
            (
                not self.embedding.needs_policy,
                "curriculum.embedding is asked where there is no policy; use WordEmbedding or SentenceEncoder",
                embedding,
            ),
        )


def greedily_spread(values_C: NDArray[np.float64], places_CH: NDArray[np.float64], weight: float) -> list[int]:
    """Order candidates by value plus weighted distance to the nearest one before them; the first by value alone.

    Args:
        values_C: what each is worth.
        places_CH: where each lies.
        weight: of a distance of 1.

    Example:
        >>> greedily_spread(np.array([0.0, -0.01, -0.04]), np.array([[0.0], [0.1], [1.0]]), 0.1)
        [0, 2, 1]
    """
    gaps_C = np.full(len(values_C), np.inf)
    is_left_C = np.ones(len(values_C), dtype=bool)
    order: list[int] = []
    for _ in range(len(values_C)):
        worth_C = values_C + weight * gaps_C if order else values_C
        chosen = int(np.argmax(np.where(is_left_C, worth_C.round(9), -np.inf)))
        order.append(chosen)
        is_left_C[chosen] = False
        gaps_C = np.minimum(gaps_C, np.linalg.norm(places_CH - places_CH[chosen], axis=1))
    return order


def _no_policy(prompts: Sequence[Prompt]) -> NoReturn:
    raise RuntimeError("curriculum.embedding asked the policy for a representation, and a curriculum has none")
