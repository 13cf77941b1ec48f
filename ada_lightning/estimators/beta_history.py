"""Each prompt's own counts, fading with every visit, on top of a prior fitted to all prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ada_lightning.estimators.pooled_prior import fit_pooled_prior
from ada_lightning.types import Belief, Prompt, ResponsePool

if TYPE_CHECKING:
    from torch import Tensor

_NUM_RECENT = 512
"""Pools the prior for unseen prompts is fitted to."""


class BetaHistory:
    """Beta posterior of each prompt's pass rate: pooled prior plus its own counts, forgotten geometrically.

    Args:
        memory: share of a prompt's counts that survives a visit, since the policy has changed in between.

    Raises:
        ValueError: ``memory`` outside [0, 1].
    """

    def __init__(self, *, memory: float = 0.7) -> None:
        if not 0 <= memory <= 1:
            raise ValueError(f"estimator.memory must be in [0, 1]; got {memory}")
        self.memory = memory
        self._counts: dict[str, tuple[float, float]] = {}
        self._recent: deque[tuple[int, int]] = deque(maxlen=_NUM_RECENT)
        self._prior = Belief()

    def predict(self, prompts: Sequence[Prompt], represent: Callable[[Sequence[Prompt]], Tensor]) -> list[Belief]:
        """Return prior plus remembered counts of each prompt; ``represent`` is not called."""
        beliefs = []
        for prompt in prompts:
            positives, negatives = self._counts.get(prompt.prompt_id, (0.0, 0.0))
            beliefs.append(Belief(self._prior.alpha + positives, self._prior.beta + negatives))
        return beliefs

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the step's counts and fit the prior again."""
        for pool in pools:
            positives, negatives = self._counts.get(pool.prompt.prompt_id, (0.0, 0.0))
            self._counts[pool.prompt.prompt_id] = (
                self.memory * positives + pool.num_positive,
                self.memory * negatives + pool.num_negative,
            )
            if pool.num_sampled:
                self._recent.append((pool.num_positive, pool.num_sampled))
        self._prior = fit_pooled_prior(self._recent)

    def state_dict(self) -> dict[str, Any]:
        """Counts by prompt id, and the outcomes behind the prior."""
        return {
            "counts": {prompt_id: list(counts) for prompt_id, counts in self._counts.items()},
            "recent": [list(outcome) for outcome in self._recent],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self._counts = {prompt_id: (counts[0], counts[1]) for prompt_id, counts in state["counts"].items()}
        self._recent = deque(((int(p), int(n)) for p, n in state["recent"]), maxlen=_NUM_RECENT)
        self._prior = fit_pooled_prior(self._recent)
