"""Which prompts a step is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ada_lightning.core.records import Prompt, PromptHistory, ResponsePool


@runtime_checkable
class Curriculum(Protocol):
    """Which prompts a step trains on."""

    needs_history: bool
    """Whether it asks what is remembered of prompts; such a curriculum needs a :class:`RememberingEstimator`."""

    def choose(
        self,
        prompts: Sequence[Prompt],
        num_prompts: int,
        *,
        step: int,
        seed: int,
        recall: Callable[[Sequence[Prompt]], Sequence[PromptHistory]],
    ) -> list[Prompt]:
        """Return the prompts of a rollout step, in no order that tells anything about them.

        Must be a function of its arguments and of what ``recall`` answers, so that a resumed run chooses the same.
        A :class:`LearningCurriculum` may use what it observed before the step, and may return fewer prompts, or none:
        whoever asks goes on with the next stretch.

        Args:
            prompts: all training prompts, in their stable order.
            num_prompts: prompts of a step (P). Where there are fewer than that, some come more than once.
            step: which stretch of the run's prompts, from 0: the rollout step, where no step took more than its P.
            seed: of every choice.
            recall: what is remembered of prompts, one history each.
        """
        ...

    def figures(self, histories: Sequence[PromptHistory]) -> Mapping[str, float]:
        """What to log of the prompts it has chosen, by name."""
        ...

    def bend(self) -> str:
        """Return one line on what it does to the run's objective; empty where every prompt counts the same."""
        ...


@runtime_checkable
class LearningCurriculum(Curriculum, Protocol):
    """A curriculum that learns from the steps itself, beside what an estimator remembers of pass rates."""

    def observe(self, pools: Sequence[ResponsePool]) -> None:
        """Learn from the pools of a finished rollout step."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What outlives a step, as primitives."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        ...


@runtime_checkable
class Usefulness(Protocol):
    """What a visit to a prompt of a known pass rate is worth."""

    def __call__(self, pass_rates: Sequence[float]) -> list[float]:
        """Return one value per pass rate in [0, 1]; only their order matters."""
        ...
