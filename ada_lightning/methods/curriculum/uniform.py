"""Every prompt once per epoch: no curriculum."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import Curriculum, Recall
from ada_lightning.core.records import Prompt
from ada_lightning.methods.curriculum.epochs import epoch_positions


class UniformCurriculum(Curriculum):
    """A seeded shuffle of the training prompts per epoch, cut in order.

    A function of step and seed alone: nothing is asked about the prompts. A step across the end of an epoch can hold a
    prompt of both.

    Example:
        >>> prompts = [Prompt(name, ()) for name in "abcd"]
        >>> epoch = [UniformCurriculum().choose(prompts, 2, step=step, seed=0, recall=lambda _: []) for step in (0, 1)]
        >>> sorted(prompt.prompt_id for step in epoch for prompt in step)
        ['a', 'b', 'c', 'd']
    """

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the next ``num_prompts`` of the epochs; ``recall`` is not called."""
        positions = epoch_positions(len(prompts), step * num_prompts, num_prompts, str(seed))
        return [prompts[position] for position in positions]
