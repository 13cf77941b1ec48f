"""What curricula share that prefer some prompts: candidates, a ranking, and a share for all prompts in turn."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.protocols import Curriculum, Recall, Usefulness
from ada_lightning.core.records import Belief, Prompt
from ada_lightning.methods.curriculum.epochs import epoch_positions

_FEWEST_CANDIDATES = 2.0
"""Per prompt of a step. A stretch of two epochs can hold a prompt twice: at least half of it is distinct."""


class RankedCurriculum(Curriculum, ABC):
    """The best of a step's candidates, and a few prompts whatever is believed of them.

    The candidates are the next stretch of a walk through shuffled epochs, ``candidate_ratio`` per prompt of the step.
    So no prompt comes more than ``candidate_ratio + revisit_ratio`` times as often as in uniform order, and no step is
    made of the same few favourites as the one before. A second walk fills ``revisit_ratio`` of all places: it comes by
    every prompt at least once in ``2 N / (revisit_ratio P)`` steps (N training prompts, P per step), so nothing is
    abandoned on the strength of an old belief while the policy learns, and what was never seen gets known. No prompt
    comes twice in a step while there are enough of them, nor the copies that a mixture makes of it while there are
    other candidates.

    All of it is a function of step, seed and what is remembered, and holds no state of its own.

    Args:
        candidate_ratio: candidates per prompt of a step. As many as there are prompts or more: all are candidates.
        revisit_ratio: share of all places, in the long run exactly, that goes to all prompts in turn. With 0 a prompt
            can be lost for good.

    Raises:
        ValueError: a value outside its range, or what :meth:`_errors` finds; all in one message.

    Source:
        The best of the candidates by what history says of them: MoPPS, arXiv:2507.04632. Candidates from epochs, which
        bound how often a prompt comes, and the share in turn are ours.
    """

    needs_history = True

    def __init__(self, *, candidate_ratio: float, revisit_ratio: float) -> None:
        self.candidate_ratio = candidate_ratio
        self.revisit_ratio = revisit_ratio
        enough = f"at least {_FEWEST_CANDIDATES:g} and finite, so that there is something to choose from"
        is_enough = _FEWEST_CANDIDATES <= candidate_ratio < math.inf
        refuse(
            *self._errors(),
            *unmet(
                (is_enough, f"curriculum.candidate_ratio must be {enough}", candidate_ratio),
                (0 <= revisit_ratio <= 1, "curriculum.revisit_ratio must be in [0, 1]", revisit_ratio),
            ),
        )

    def look_at(self, candidates: Sequence[Prompt], prompts: Sequence[Prompt]) -> None:
        """See the candidates themselves, just before they are ranked, and all training prompts; most need neither."""

    @abstractmethod
    def rank(self, beliefs: Sequence[Belief], generator: random.Random) -> list[int]:
        """Return the indices of the candidates, the best first. They come in random order."""

    @abstractmethod
    def _preference(self) -> str:
        """Say what is preferred, for messages."""

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the step's prompts, shuffled. ``recall`` is asked about the candidates only."""
        num_whole, num_left = divmod(num_prompts, len(prompts))
        chosen = list(range(len(prompts))) * num_whole
        if num_left:
            in_turn = self._revisited(len(prompts), num_left, step, seed)
            walked = dict.fromkeys([*in_turn, *self._candidates(len(prompts), num_left, step, seed)])
            places: dict[str, int] = {}
            for position in walked:
                places.setdefault(prompts[position].prompt_id, position)
            first = set(places.values())
            revisited = [position for position in in_turn if position in first]
            candidates = [position for position in walked if position in first and position not in in_turn]
            # A mixture lists a prompt several times.
            repeats = [position for position in walked if position not in first]
            listed = [prompts[position] for position in candidates]
            self.look_at(listed, prompts)
            ranked = self.rank(recall(listed), random.Random(f"{seed}/rank/{step}"))
            best = [*(candidates[index] for index in ranked), *repeats]
            chosen += [*revisited, *best[: num_left - len(revisited)]]
        random.Random(f"{seed}/mix/{step}").shuffle(chosen)
        return [prompts[position] for position in chosen]

    def bend(self) -> str:
        """What is preferred, and within which bounds."""
        return (
            f"curriculum: {self._preference()}; a prompt counts by how often it is chosen, between "
            f"{self.revisit_ratio:g} and {self.candidate_ratio + self.revisit_ratio:g} times as often as in uniform "
            "order, and nothing undoes that: the objective is the mean of f(p) under these weights"
        )

    def _errors(self) -> list[str]:
        """What is wrong with further arguments."""
        return []

    def _revisited(self, total: int, num_prompts: int, step: int, seed: int) -> dict[int, None]:
        per_step = self.revisit_ratio * num_prompts
        first, end = int(step * per_step), int((step + 1) * per_step)  # a part of a place waits for the next step
        count = min(end - first, num_prompts)  # rounding must not make a step overflow
        return dict.fromkeys(epoch_positions(total, first, count, f"{seed}/revisit"))

    def _candidates(self, total: int, num_prompts: int, step: int, seed: int) -> dict[int, None]:
        count = min(total, int(self.candidate_ratio * num_prompts))
        return dict.fromkeys(epoch_positions(total, step * count, count, f"{seed}/candidates"))


class UsefulFirst(RankedCurriculum):
    """A ranking of candidates by what a visit is worth at some pass rate.

    Args:
        usefulness: what a pass rate is worth.
        candidate_ratio: as in :class:`RankedCurriculum`.
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
