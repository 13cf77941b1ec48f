"""Divide the step among prompts by what is believed of their pass rates, and sample once (Reinforce-Ada-Est)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.records import Belief
from ada_lightning.methods.checked import Check
from ada_lightning.methods.sampling.allocation import allocate
from ada_lightning.methods.sampling.planned import OneShotSampler


@dataclass(kw_only=True, eq=False)
class EstimatedSampler(OneShotSampler):
    """A prompt gets responses in proportion to ``pass_rate^-gamma``, in a single pass, with a fixed total per step.

    Where every response trains and counts the same (``official`` with ``token_mean``), the allocation is itself a
    weight: the update follows ``p^-gamma`` times the explicit weight of the advantage, for log 1/2 and 1/2 in the
    paper, 1 and 0 in the public code. An advantage that divides by the size of the pool (``exact``, ``stratified``)
    carries the whole weight itself; ``gamma`` then only decides where its variance is low.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, Algorithm 1 (its epsilon is the estimator's prior here, which keeps pass
        rates off 0) and appendix C.2. RLHFlow/Reinforce-Ada at e876f3e, which is on its branch ``hanze`` and not on
        ``main``: ``ray_trainer_ema.py`` L1014-1041.

    Example:
        >>> from ada_lightning.core.records import Belief, Prompt, ResponsePool
        >>> hard = ResponsePool(Prompt("hard", ()), slot=0, belief=Belief(1, 15))
        >>> easy = ResponsePool(Prompt("easy", ()), slot=1, belief=Belief(9, 7))
        >>> sampler = EstimatedSampler(responses_per_prompt=8, gamma=0.5, n_min=2, n_max=32, group_size=32)
        >>> sampler.plan([hard, easy])  # sqrt(1/16) to sqrt(9/16) is 1 to 3
        >>> sampler.num_to_draw(hard), sampler.num_to_draw(easy)
        (12, 4)
    """

    gamma: float = 0.5
    """Power of the pass rate: 1/2 is the paper, 1 the public code, 0 gives every prompt the same."""
    n_min: int = 2
    """One response alone can carry no signal."""
    n_max: int = 32
    """The public code has no limit, and its batches fill with hard prompts."""
    group_size: int = 32

    def _checks(self) -> Iterator[Check]:
        yield from super()._checks()
        yield 0 <= self.gamma < math.inf, f"gamma must be 0 (uniform) or positive, and finite; got {self.gamma}"

    def divide(self, beliefs: Sequence[Belief], total: int) -> list[int]:
        """Divide in proportion to ``mean ** -gamma``, inside the bounds."""
        lowest = min(belief.mean for belief in beliefs)
        # Relative to the lowest pass rate a weight is at most 1, so that no power overflows.
        weights = [(lowest / belief.mean) ** self.gamma for belief in beliefs]
        return allocate(weights, total, self.n_min, self.n_max)
