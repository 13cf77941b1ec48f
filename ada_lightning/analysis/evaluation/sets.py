"""Evaluation sets: prompts, the reward that grades them, and their weight in the average."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ada_lightning.core.protocols import PromptSource
from ada_lightning.core.records import Prompt
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.data.prompts import SLOT
from ada_lightning.rewards.pool import RewardPool


class EvaluationSet:
    """The held-out prompts of a source.

    Args:
        source: where the prompts come from.
        reward: grades the responses.
        weight: in the average over sets; None is the number of prompts evaluated.
        num_prompts: the first so many; None takes all.

    Raises:
        ValueError: a weight that is not above 0, or ``num_prompts`` below 1.
    """

    def __init__(
        self, *, source: PromptSource, reward: RewardPool, weight: float | None = None, num_prompts: int | None = None
    ) -> None:
        if weight is not None and not 0 < weight < float("inf"):
            raise ValueError(f"weight must be above 0, or null for the number of prompts; got {weight}")
        if num_prompts is not None and num_prompts < 1:
            raise ValueError(f"num_prompts must be at least 1, or null for all; got {num_prompts}")
        self.source = source
        self.reward = reward
        self.weight = weight
        self.num_prompts = num_prompts

    def prompts(self) -> list[Prompt]:
        """Read the prompts.

        Raises:
            ValueError: they cannot be read, or there are none.
        """
        prompts = list(self.source.heldout_prompts())[: self.num_prompts]
        if not prompts:
            raise ValueError("no prompts are held out: there is nothing to evaluate on; raise data.source.num_heldout")
        return prompts


class DatasetSet(EvaluationSet):
    """All prompts of a data set: of the hub, a folder or files.

    Args:
        path: name on the hub, folder, file or glob, or a list of files.
        reward: grades the responses.
        weight: in the average over sets; None is the number of prompts evaluated.
        num_prompts: the first so many by a hash of their content; None takes all.
        name: configuration of a data set of the hub or a folder; None for its only or default one.
        revision: branch, tag or commit on the hub; None for the newest.
        split: split of the hub or a folder.
        prompt_column: column of the problem; may be dotted; None recognises it.
        answer_column: column of the answer; may be dotted; None recognises it.
        answer_pattern: regular expression whose first group is taken as the answer; None takes all of it.
        filters: conditions on columns (:mod:`ada_lightning.data.filters`).
        system_prompt: first turn of every prompt; None leaves what the data has.
        prompt_template: the user's turn, with ``{prompt}`` where the text goes.

    Raises:
        ValueError: settings that cannot work.
    """

    def __init__(
        self,
        *,
        path: str | Path | Sequence[str],
        reward: RewardPool,
        weight: float | None = None,
        num_prompts: int | None = None,
        name: str | None = None,
        revision: str | None = None,
        split: str = "test",
        prompt_column: str | None = None,
        answer_column: str | None = None,
        answer_pattern: str | None = None,
        filters: Sequence[Any] = (),
        system_prompt: str | None = None,
        prompt_template: str = SLOT,
    ) -> None:
        source = DatasetSource(
            path,
            num_heldout=None,
            seed=0,  # of the order alone, and that must be the same for every model
            name=name,
            revision=revision,
            split=split,
            prompt_column=prompt_column,
            answer_column=answer_column,
            answer_pattern=answer_pattern,
            filters=filters,
            system_prompt=system_prompt,
            prompt_template=prompt_template,
        )
        super().__init__(source=source, reward=reward, weight=weight, num_prompts=num_prompts)
