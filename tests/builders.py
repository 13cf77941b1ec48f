"""Small builders of records for tests."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ada_lightning.core.records import (
    KeptResponse,
    Prompt,
    Response,
    ResponseGroup,
    ResponsePool,
    SamplingSettings,
    Verdict,
)
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.data.dataset import DatasetSource
from ada_lightning.methods.selection import AllSelection
from ada_lightning.rollout.driver import Driver
from ada_lightning.rollout.grader import StepwiseGrader
from ada_lightning.run.phase_clock import PhaseClock

SETTINGS = SamplingSettings(max_new_tokens=4)


def make_prompt(key: int = 7, *, num_tokens: int = 3) -> Prompt:
    """A prompt whose first token tells the scripted engine its pass rate."""
    return Prompt(prompt_id=f"p{key}", messages=(), prompt_ids=(key,) + (0,) * (num_tokens - 1))


def make_response(index: int, reward: float, *, prompt_id: str = "p7", num_tokens: int = 2, round_index: int = 0):
    return Response(
        prompt_id=prompt_id,
        sample_index=index,
        round_index=round_index,
        response_ids=tuple(range(5, 5 + num_tokens)),
        sampling_logprobs=tuple(-0.1 * (i + 1) for i in range(num_tokens)),
        text=str(reward),
        is_truncated=False,
        reward=reward,
        is_positive=reward > 0.7,
        policy_version=0,
    )


def make_pool(rewards: Sequence[float], *, slot=0, key=7, num_tokens: Sequence[int] | None = None, block=10**6):
    """A pool drawn in blocks of so many responses."""
    pool = ResponsePool(make_prompt(key), slot)
    lengths = num_tokens or [2] * len(rewards)
    for index, (reward, length) in enumerate(zip(rewards, lengths, strict=True)):
        pool.add(make_response(index, reward, prompt_id=f"p{key}", num_tokens=length, round_index=index // block))
    return pool


def make_group(rewards: Sequence[float], *, slot: int = 0, key: int = 7, num_tokens: Sequence[int] | None = None):
    """A group that keeps its whole pool."""
    pool = make_pool(rewards, slot=slot, key=key, num_tokens=num_tokens)
    return ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses))


def random_group(key: int, rewards: Sequence[float], *, max_length: int = 9):
    """A group of random tokens, the same for the same key; responses are shorter than ``max_length``."""
    generator = random.Random(key)
    prompt_ids = tuple(generator.randrange(3, 250) for _ in range(generator.randrange(3, 12)))
    pool = ResponsePool(Prompt(f"p{key}", (), prompt_ids=prompt_ids), slot=key)
    for index, reward in enumerate(rewards):
        ids = tuple(generator.randrange(3, 250) for _ in range(generator.randrange(1, max_length)))
        pool.add(Response(f"p{key}", index, 0, ids, (-5.5,) * len(ids), "", False, reward, reward > 0.7, 0))
    return ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses))


PACKING = {
    "num_minibatches": 1,
    "max_tokens_per_microbatch": 10**6,
    "policy_version": 0,
    "shuffle_seed": 0,
    "keep_groups_without_signal": False,
    "share_prompts": True,
}


def packed(*groups, advantage=None, **options):
    """One optimiser step of groups, in one microbatch unless ``options`` of packing say otherwise."""
    from ada_lightning.training.packing import pack_groups

    (batch,) = pack_groups(weighed(advantage, groups) if advantage else groups, **PACKING | options)
    return batch


class InstantGrader:
    """Grades the scripted engine's responses in the same process: "1" is right."""

    def __init__(self, grade=lambda text: Verdict(float(text == "1"))):
        self._grade = grade
        self._ready = []
        self.num_graded = 0

    def submit(self, ticket, prompt, completion):
        self.num_graded += 1
        self._ready.append((ticket, self._grade(completion.text)))

    def poll(self):
        ready, self._ready = self._ready, []
        return ready

    def wait(self, timeout_s):
        return self.poll()

    def discard_pending(self):
        self._ready = []


def decode(response_ids):
    """Text of a scripted response."""
    return str(response_ids[0])


def assigned(advantage, *groups):
    """Advantages of the kept responses of a rollout, one after the other. Shape ``(B,)``."""
    return np.array([value for row in advantage.assign(groups) for value in row])


def weighed(advantage, groups):
    """The groups with their advantages."""
    return [group.with_advantages(row) for group, row in zip(groups, advantage.assign(groups), strict=True)]


class Collector:
    """Drives steps as the service does, with whatever engine and graders.

    Args:
        decode: token ids to text.
        reproducible: let verdicts count at fixed engine steps, ``verdict_delay`` later.
        options: of :class:`StepSettings`.
    """

    def __init__(self, *, decode=decode, reproducible=False, verdict_delay=4, seed=0, **options):
        self._decode, self._delay = decode, verdict_delay if reproducible else None
        self._settings, self._names = StepSettings(seed=seed, **options), count(1)

    def collect(
        self, prompts, *, engine, grader, settings=SETTINGS, stage="train", clock=None, interrupt_check=lambda: None,
        episodes=None, **options,
    ):  # fmt: skip
        """Return the groups and the counts of a step with these ``options``."""
        begun = Step(
            prompts, settings=self._settings, stage=stage,
            max_prompt_tokens=engine.max_model_tokens - settings.max_new_tokens, **options,
        )  # fmt: skip
        clock = clock or PhaseClock()
        if self._delay is not None:
            grader = StepwiseGrader(grader, delay=self._delay, interrupt_check=interrupt_check)
        driver = Driver(
            [begun], sampling=settings, settings=self._settings, grader=grader, decode=self._decode,
            name=str(next(self._names)), interrupt_check=interrupt_check, episodes=episodes,
            waiting=lambda: nullcontext() if stage in ("eval", "preview") else clock.phase("grade"),
            report=lambda: clock.report(begun.stats.num_drawn, begun.num_launched),
        )  # fmt: skip
        started = time.monotonic()
        list(driver.run(engine))
        begun.stats.seconds = time.monotonic() - started
        return begun.finish(), begun.stats


def collect(prompts, engine, sampler, *, grader=None, selection=None, **options):
    """Groups and counts of one step. ``prompts``: records or keys; ``options``: of the run, the step and the driver."""
    of_run = {field.name for field in fields(StepSettings)} | {"reproducible", "verdict_delay"}
    collector = Collector(**{name: options.pop(name) for name in of_run & options.keys()})
    return collector.collect(
        [make_prompt(prompt) if isinstance(prompt, int) else prompt for prompt in prompts],
        engine=engine, grader=grader or InstantGrader(), sampler=sampler, selection=selection or AllSelection(),
        **options,
    )  # fmt: skip


def jsonl_source(path: str | Path, *, num_heldout: int = 0, seed: int = 0, **options: Any) -> DatasetSource:
    """Make what ``data=jsonl`` reads a file with."""
    named = {"prompt_column": "prompt", "answer_column": "answer", "task": "jsonl", "skip_invalid": False}
    return DatasetSource(path, num_heldout=num_heldout, seed=seed, **(named | options))
