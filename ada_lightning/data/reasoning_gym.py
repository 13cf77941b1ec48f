"""Prompts made by reasoning-gym's procedural tasks."""

from __future__ import annotations

import dataclasses
import json
import pickle
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from ada_lightning.core.checks import not_text, refuse, similar
from ada_lightning.core.records import Prompt
from ada_lightning.data.columns import as_json_like
from ada_lightning.data.prompts import chat_messages, largest_remainder, stable_hash
from ada_lightning.rewards.reasoning_gym import check_verifier_is_safe, reasoning_gym

_SET_BY_US = {"seed": "data.source.seed", "size": "data.source.num_train and data.source.num_heldout"}
_MAX_REPEATS = 2000
"""Questions seen before, in a row, after which a task counts as exhausted."""
_MOST_MADE = 4
_MADE: dict[str, tuple[tuple[Prompt, ...], tuple[Prompt, ...]]] = {}
"""Training and held-out prompts of the sources that were made last, by what they are made of."""


class ReasoningGymSource:
    """Several reasoning-gym tasks with train and held-out prompts that share no question.

    A question that a task repeats (small sums do) is used once. What is held out is chosen by a hash of seed and
    content among all distinct questions: taking the first ones drawn would hold out the frequent, easy questions and
    leave the rare, hard ones to train on.

    Args:
        tasks: config by task name; besides the task's own keys, ``weight`` is its share of the prompts (default 1).
        num_train: training prompts, all tasks together.
        num_heldout: held-out prompts, all tasks together; 0 for none.
        seed: of the questions and of the order of tasks.
        system_prompt: first turn of every prompt; None for none.

    Raises:
        ValueError: a count or weight is out of range, there is no task, or a task gets no prompt.
    """

    def __init__(
        self,
        tasks: Mapping[str, Mapping[str, Any] | None],
        *,
        num_train: int,
        num_heldout: int,
        seed: int,
        system_prompt: str | None = None,
    ) -> None:
        refuse(*not_text(system_prompt=system_prompt))
        if not tasks:
            raise ValueError("data.source.tasks is empty; name at least one task, such as chain_sum: {max_terms: 2}")
        if num_train < 1:
            raise ValueError(f"data.source.num_train must be at least 1; got {num_train}")
        if num_heldout < 0:
            raise ValueError(f"data.source.num_heldout must be at least 0; got {num_heldout}")
        configs = {str(name): as_json_like(config or {}) for name, config in tasks.items()}
        weights = {name: config.pop("weight", 1.0) for name, config in configs.items()}
        for name, weight in weights.items():
            if not isinstance(weight, (int, float)) or not 0 < weight < float("inf"):
                raise ValueError(f"data.source.tasks.{name}.weight must be a positive number; got {weight!r}")
        self.configs: dict[str, dict[str, Any]] = configs
        self.num_train_by_task = largest_remainder(num_train, weights)
        self.num_heldout_by_task = largest_remainder(num_heldout, weights)
        starved = [name for name, count in self.num_train_by_task.items() if count == 0]
        if starved:
            raise ValueError(
                f"tasks {starved} get none of the {num_train} training prompts; raise their weight or num_train"
            )
        self.seed = seed
        self.system_prompt = system_prompt

    def train_prompts(self) -> Sequence[Prompt]:
        """Prompts to learn from, tasks mixed, in an order fixed by the seed."""
        return self._split[0]

    def heldout_prompts(self) -> Sequence[Prompt]:
        """Prompts to evaluate on; none of their questions is a training question."""
        return self._split[1]

    def check(self) -> None:
        """Find configuration errors and make the prompts. No model is needed for it.

        Raises:
            ValueError: an unknown task or config key (with the nearest valid name), a value that the task rejects, a
                verifier that would run text as code, or a task with too few distinct questions.
        """
        self.train_prompts()

    @cached_property
    def _split(self) -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
        # A run makes its source twice, for the check and for the steps, and the prompts once.
        made_of = json.dumps(
            [self.configs, self.num_train_by_task, self.num_heldout_by_task, self.seed, self.system_prompt]
        )
        if (split := _MADE.get(made_of)) is None:
            for task, config in self.configs.items():
                _check_task(task, config)
            split = self._make()
            while len(_MADE) >= _MOST_MADE:
                del _MADE[next(iter(_MADE))]  # the oldest
            _MADE[made_of] = split
        return split

    def _make(self) -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
        seen: set[str] = set()
        train: list[Prompt] = []
        heldout: list[Prompt] = []
        for task, config in self.configs.items():
            num_heldout, num_train = self.num_heldout_by_task[task], self.num_train_by_task[task]
            prompts = self._draw(task, config, num_heldout + num_train, seen)
            by_hash = sorted(prompts, key=lambda prompt: stable_hash(self.seed, prompt.prompt_id))
            heldout += by_hash[:num_heldout]
            train += by_hash[num_heldout:]
        order = random.Random(f"{self.seed}/order")
        order.shuffle(train)
        order.shuffle(heldout)
        return tuple(train), tuple(heldout)

    def _draw(self, task: str, config: Mapping[str, Any], num_needed: int, seen: set[str]) -> list[Prompt]:
        # Entry i of a task is made from seed + i: neighbouring seeds would share nearly all their questions.
        task_seed = random.Random(f"{self.seed}/{task}").getrandbits(31)
        full_config = {**config, "seed": task_seed, "size": num_needed}
        prompts: list[Prompt] = []
        num_repeats = 0
        for entry in _entries(task, full_config):
            if len(prompts) == num_needed or num_repeats == _MAX_REPEATS:
                break
            if entry["question"] in seen:
                num_repeats += 1
                continue
            num_repeats = 0
            seen.add(entry["question"])
            prompts.append(self._prompt(task, full_config, entry))
        if len(prompts) < num_needed:
            raise ValueError(
                f"task {task!r} with {dict(config)} has too few distinct questions: {num_needed} are needed "
                f"({self.num_heldout_by_task[task]} held out, {self.num_train_by_task[task]} to train), {len(prompts)} "
                f"found before {_MAX_REPEATS} repeats in a row; ask for fewer, or make the task more varied"
            )
        return prompts

    def _prompt(self, task: str, config: Mapping[str, Any], entry: Mapping[str, Any]) -> Prompt:
        try:
            pickle.dumps(entry)
        except Exception as error:  # pickling runs code of the objects inside
            raise ValueError(
                f"task {task!r} puts something into its entries that cannot be sent to reward workers: {error}"
            ) from error
        # Some tasks have many right answers and name none: rewards that compare with one must see that there is none.
        answer = {} if entry["answer"] is None else {"answer": entry["answer"]}
        return Prompt(
            prompt_id=stable_hash(task, entry["question"], entry["answer"]),
            messages=chat_messages(entry["question"], self.system_prompt),
            reference={"task": task, "config": config, "entry": entry, **answer},
            task=task,
        )


def _entries(task: str, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Entries of a task without end: chunk after chunk, each with a seed that continues the one before."""
    size, seed = config["size"], config["seed"]
    while True:
        dataset = reasoning_gym.create_dataset(task, **{**config, "seed": seed})
        for index in range(size):
            yield dataset[index]
        seed += size


def _check_task(task: str, config: Mapping[str, Any]) -> None:
    known = reasoning_gym.factory.DATASETS
    if task not in known or task == "composite":
        raise ValueError(f"unknown reasoning-gym task {task!r}{_nearest(task, known)} (data.source.tasks lists them)")
    check_verifier_is_safe(task)
    config_class = reasoning_gym.factory.DATASETS[task][1]
    valid = {field.name for field in dataclasses.fields(config_class)} - set(_SET_BY_US)
    for key in config:
        if key in _SET_BY_US:
            raise ValueError(f"data.source.tasks.{task}.{key} cannot be set: it follows from {_SET_BY_US[key]}")
        if key not in valid:
            raise ValueError(
                f"reasoning-gym task {task!r} has no key {key!r}{_nearest(key, valid)}; "
                f"keys: {', '.join(sorted({*valid, 'weight'}))}"
            )
    try:
        candidate = config_class(**config)
        if hasattr(candidate, "validate"):
            candidate.validate()
    except (AssertionError, TypeError, ValueError) as error:
        raise ValueError(f"reasoning-gym task {task!r} rejects {dict(config)}: {error}") from error


def _nearest(name: str, valid: Iterable[str]) -> str:
    nearest = similar(name, valid, cutoff=0)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
