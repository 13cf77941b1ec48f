"""Thompson sampling: prompts that would be the most useful if their pass rates were those just drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ada_lightning.core.records import Belief
from ada_lightning.methods.curriculum.ranked import UsefulFirst


class PosteriorSampling(UsefulFirst):
    """Draws a pass rate from every candidate's Beta belief and takes the candidates whose draws are the most useful.

    A candidate is chosen about as probably as it is one of the best, so what is uncertain gets explored by itself: a
    prompt never seen draws from the prior, one seen long ago from counts that have faded only as far as its estimator
    lets them (per visit, not per step), for which the share in turn makes up.

    Source:
        Thompson 1933; for prompts MoPPS, Qu et al., arXiv:2507.04632, which ranks by the distance of the draw from 1/2:
        the same order as that of :class:`~ada_lightning.methods.curriculum.usefulness.Learnability`.
    """

    def rank(self, beliefs: Sequence[Belief], generator: random.Random) -> list[int]:
        """Draw once per candidate, in their order, and sort by what the draws are worth."""
        drawn = [generator.betavariate(belief.alpha, belief.beta) for belief in beliefs]
        values = self.usefulness(drawn)
        return sorted(range(len(beliefs)), key=lambda index: -values[index])

    def _preference(self) -> str:
        return f"prompts come first that {type(self.usefulness).__name__} of a pass rate drawn from history favours"
