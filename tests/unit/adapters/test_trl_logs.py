"""What ``ada audit`` says of the tables that TRL's own trainer writes."""

from __future__ import annotations

import math
import os
import random
from functools import partial

import pytest

pytest.importorskip("trl")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from datasets import Dataset

from ada_lightning.audit.figures import audit
from ada_lightning.audit.readers.find import read_logs
from ada_lightning.audit.records import Cause, Options
from tests.unit.adapters import trl_world

ROWS = [{"prompt": f"Question {number}", "level": number} for number in range(12)]
GROUP = 4


def rollout(prompts, trainer):
    """Two tokens a response: the first says how good it is."""
    return {
        "prompt_ids": [[5]] * len(prompts),
        "completion_ids": [[random.randrange(10, 14), 9] for _ in prompts],
        "logprobs": None,
    }


def right(completion_ids, **columns):
    return [float(ids[0] == 10) for ids in completion_ids]


def some(completion_ids, **columns):
    return [{10: 1.0, 11: None, 12: math.nan, 13: 0.5}[ids[0]] for ids in completion_ids]


def logged(tmp_path, functions=(right,), **config):
    random.seed(3)
    trainer = trl_world.plain_trainer(
        ROWS[:4], list(functions), rollout_func=rollout, num_generations=GROUP, log_completions=True,
        output_dir=str(tmp_path), **config,
    )  # fmt: skip
    trainer.train()
    ((_, log),) = read_logs([tmp_path], Options())
    return trainer, log


def test_half_of_the_rollouts_are_missed_where_every_second_step_is_logged(tmp_path):
    _, log = logged(tmp_path, max_steps=4, logging_steps=2)
    assert [hole.what for hole in log.holes if hole.setting == "logging_steps=1"] == ["1 of 3 steps"]
    assert len(log.rows) == 2 * GROUP * 4


def test_rewards_of_one_function_and_what_none_and_nan_leave_out(tmp_path):
    def levels(level, log_extra, **columns):
        log_extra("hardness", [number / 2 for number in level])
        return [None] * len(level)

    _, log = logged(tmp_path, [some, levels])
    assert log.remarks[0] == "the reward is the sum of some; other columns of numbers, which are not used: hardness"
    assert {row.reward for row in log.rows} == {None, 0.5, 1.0}
    causes = audit(log, num_resamples=50).figures
    ungraded = sum(row.reward is None for row in log.rows) / len(log.rows)
    assert causes[f"lost:{Cause.NOT_GRADED.name}"].value == pytest.approx(ungraded, abs=0.05)


def test_two_functions_of_one_name_leave_a_hole_that_is_named(tmp_path):
    """TRL logs the second one alone; the first, which counts half as much, shows in the advantages."""

    def graded(completion_ids, tokens, **columns):
        return [float(ids[0] in tokens) for ids in completion_ids]

    functions = [partial(graded, tokens=(10, 11)), partial(graded, tokens=(10, 12))]
    _, log = logged(tmp_path, functions, reward_weights=[0.5, 1.0])
    assert {name for row in log.rows for name in row.components} == {"graded"}
    (hole,) = (hole for hole in log.holes if hole.what == "a part of the rewards")
    assert "Two reward functions with one name" in hole.consequence
    _, whole = logged(tmp_path / "one", functions[1:])
    assert not any(hole.what == "a part of the rewards" for hole in whole.holes)


def test_an_evaluation_writes_over_the_file_of_its_step_and_every_log_says_so(tmp_path):
    trainer, log = logged(tmp_path)
    before = [row.reward for row in log.rows]
    trainer.evaluate(Dataset.from_list(ROWS[4:8]))
    ((_, after),) = read_logs([tmp_path], Options())
    assert [row.prompt_key for row in after.rows] != [row.prompt_key for row in log.rows]
    assert len(after.rows) == len(before)
    assert any("an evaluation writes over the training rows" in hole.consequence for hole in after.holes)
