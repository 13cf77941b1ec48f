"""A draw from all prompts, weighed by how uncertain their outcome is (SPO)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.protocols import Curriculum, Recall
from ada_lightning.core.records import Belief, Prompt


class WeightedDraw(Curriculum):
    """Draws without replacement from all training prompts, with weights ``sqrt(v (1 - v)) / N^gamma + floor``.

    v is what is believed of the pass rate and N the strength of the belief. There are no candidates and no share in
    turn: ``floor`` is all that brings prompts back which are believed to be solved or hopeless, 11 times as rarely as
    those believed to be at one half where it is .05.

    One after the other without replacement in proportion to the weights: the prompts with the largest ``u^(1/w)`` for u
    uniform in (0, 1), which are seeded by step and prompt (Efraimidis and Spirakis 2006).

    Args:
        floor: added to every weight.
        gamma: how much less a prompt comes that is known better; 0: not at all.
        unseen_first: prompts of which nothing was seen come before all others. With a sampler that draws more of those
            the run begins by measuring all prompts.

    Raises:
        ValueError: ``floor`` not positive and finite, or ``gamma`` outside [0, 1]; all in one message.

    Source:
        SPO, arXiv:2509.13232; the authors' code has no ``gamma``.

    Example:
        >>> [round(WeightedDraw().weight(Belief(v, 1 - v)), 5) for v in (1e-12, 0.1, 0.5)]
        [0.05, 0.35, 0.55]
    """

    needs_history = True

    def __init__(self, *, floor: float = 0.05, gamma: float = 0.0, unseen_first: bool = False) -> None:
        refuse(
            *unmet(
                (0 < floor < math.inf, "curriculum.floor must be positive and finite, or prompts could be lost", floor),
                (0 <= gamma <= 1, "curriculum.gamma must be in [0, 1]", gamma),
            )
        )
        self.floor = floor
        self.gamma = gamma
        self.unseen_first = unseen_first

    def weight(self, belief: Belief) -> float:
        """Return how readily a prompt is drawn, relative to the others."""
        spread = math.sqrt(belief.mean * (1 - belief.mean))
        return spread / (belief.alpha + belief.beta) ** self.gamma + self.floor

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the step's prompts, shuffled. ``recall`` is asked about all prompts.

        Where there are fewer prompts than that, all of them come as often as that goes, and the rest is drawn.
        """
        generator = random.Random(f"{seed}/weighted/{step}")
        keys = []
        for position, belief in enumerate(recall(prompts)):
            comes_first = self.unseen_first and not belief.is_seen
            # log of u^(1/w): the order is the same, and no key rounds to 1
            keys.append((comes_first, math.log(1.0 - generator.random()) / self.weight(belief), position))
        drawn = [prompts[position] for _, _, position in sorted(keys, reverse=True)]
        num_whole, num_left = divmod(num_prompts, len(prompts))
        chosen = drawn * num_whole + drawn[:num_left]
        generator.shuffle(chosen)
        return chosen

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``weight``: mean of the weights of what was drawn."""
        return {"weight": sum(map(self.weight, beliefs)) / max(len(beliefs), 1)}

    def bend(self) -> str:
        """What is preferred, and within which bounds."""
        strength = f" / N^{self.gamma:g}" if self.gamma else ""
        return (
            f"curriculum: prompts are drawn with weights sqrt(v (1 - v)){strength} + {self.floor:g} of what is "
            "believed of them, and nothing undoes that: a prompt counts by how often it is drawn"
        )
