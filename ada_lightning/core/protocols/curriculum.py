"""Which prompts a step is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ada_lightning.core.protocols.part import Part
from ada_lightning.core.records import Belief, Prompt, ResponsePool

Recall = Callable[[Sequence[Prompt]], Sequence[Belief]]
"""Asks what is remembered of prompts."""
Usefulness = Callable[[Sequence[float]], list[float]]
"""What a visit to a prompt is worth, for each pass rate in [0, 1]; only the order of values matters."""


class Curriculum(Part):
    """Which prompts a step trains on."""

    needs_history: bool = False
    """Whether it asks what is remembered of prompts; such a curriculum needs an estimator that remembers them."""

    @property
    def learns(self) -> bool:
        """Whether it learns from the steps itself, beside what an estimator remembers of pass rates."""
        return type(self).observe is not Curriculum.observe

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the prompts of a rollout step, in no order that tells anything about them.

        Must be a function of its arguments and of what ``recall`` answers, so that a resumed run chooses the same. One
        that :attr:`learns` may use what it observed before the step, and may return fewer prompts, or none: whoever
        asks goes on with the next stretch.

        Args:
            prompts: all training prompts, in their stable order.
            num_prompts: prompts of a step (P). Where there are fewer than that, some come more than once.
            step: which stretch of the run's prompts, from 0: the rollout step, where no step took more than its P.
            seed: of every choice.
            recall: asks what is remembered.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method choose(prompts, num_prompts, ...)")

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """What to log of the prompts it has chosen, by name, from what was believed of them."""
        return {}

    def step_figures(self, beliefs: Sequence[Belief]) -> dict[str, float]:
        """Return the figures of a step for its log, keyed ``curriculum/name``; not to be overridden.

        ``curriculum/mean_belief`` beside ``rollout/reward_first_round`` shows whether what is chosen is what was
        thought; ``curriculum/share_unseen`` how much of the step explores. :meth:`figures` is added.

        Args:
            beliefs: of the step's prompts, as they were remembered before the rollout.

        Example:
            >>> from ada_lightning.methods.curriculum import DifficultyBand
            >>> beliefs = [Belief(3, 1, is_seen=True), Belief(1, 3)]
            >>> DifficultyBand().step_figures(beliefs)
            {'curriculum/mean_belief': 0.5, 'curriculum/share_unseen': 0.5, 'curriculum/share_in_band': 0.5}
        """
        total = max(len(beliefs), 1)
        figures = {
            "mean_belief": sum(belief.mean for belief in beliefs) / total,
            "share_unseen": sum(not belief.is_seen for belief in beliefs) / total,
            **self.figures(beliefs),
        }
        return {f"curriculum/{name}": value for name, value in figures.items()}

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step."""
