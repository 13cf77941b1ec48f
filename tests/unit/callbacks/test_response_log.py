import json
from dataclasses import replace

import pandas as pd
import pytest

from ada_lightning.callbacks.response_log import COLUMNS, ResponseLengths, ResponseLog, read_responses
from ada_lightning.core.records import Prompt, ResponseGroup, ResponsePool
from ada_lightning.core.step_records import EvaluationResult
from tests.builders import make_pool, make_response
from tests.unit.callbacks.small_run import Leader, Policy, make_group, make_rollout


def evaluation(step, groups):
    return EvaluationResult(step, step, groups, {}, is_final=False)


def log_steps(log, *steps):
    for step in steps:
        log.on_rollout_end(Leader(), Policy(), make_rollout(step))


def test_every_response_has_a_row_with_all_that_is_known(tmp_path):
    pool = ResponsePool(Prompt("p", ({"role": "user", "content": "1+1?"},), task="sums"), slot=5)
    known = {"text": "2 — ü", "is_truncated": True, "answer": "2", "components": {"format": 0.5}}
    pool.add(replace(make_response(0, 0.25, prompt_id="p", num_tokens=3), **known))
    group = ResponseGroup(pool, ())
    ResponseLog(run_dir=tmp_path, every_n_steps=3).on_rollout_end(Leader(), Policy(), make_rollout(3, (group,)))
    frame = read_responses(tmp_path, "train")
    assert list(frame.columns) == list(COLUMNS)
    row = frame.iloc[0].to_dict()
    assert pd.isna(row.pop("advantage"))
    assert pd.isna(row.pop("selection_weight"))
    assert json.loads(row.pop("components")) == {"format": 0.5}
    assert pd.isna([row.pop("turns"), row.pop("ended_by")]).all()  # of episodes
    assert row == {
        "stage": "train", "step": 3, "policy_version": 3, "slot": 5, "task": "sums", "prompt_id": "p",
        "prompt": "user: 1+1?", "sample_index": 0, "round": 0, "reward": 0.25, "is_positive": False, "is_kept": False,
        "answer": "2", "finish_reason": "length", "num_tokens": 3, "text": "2 — ü",
        "num_computed": 3, "hint": 0,
    }  # fmt: skip


def test_whole_folder_is_one_table(tmp_path):
    """Columns that hold only missing values in one file have the same type there as elsewhere."""
    log = ResponseLog(run_dir=tmp_path, every_n_steps=2)
    log.on_evaluation_end(Leader(), Policy(), evaluation(0, (make_group("h", [1.0], 1),)))
    log_steps(log, 0, 1, 2)
    frame = pd.read_parquet(tmp_path / "responses")
    assert sorted(frame.groupby(["stage", "step"]).size().items()) == [
        (("eval", 0), 1), (("train", 0), 4), (("train", 2), 4),
    ]  # fmt: skip


def test_sizes_bound_the_prompts_and_inf_keeps_all(tmp_path):
    assert read_responses(tmp_path, "train").empty
    groups = tuple(make_group(name, [1.0, 0.0], 2) for name in "abcde")
    for name, sizes in (("few", {"max_prompts": 2, "max_heldout_prompts": 1}), ("all", {"max_prompts": float("inf")})):
        log = ResponseLog(run_dir=tmp_path / name, **sizes)
        log.on_rollout_end(Leader(), Policy(), make_rollout(0, groups))
        log.on_evaluation_end(Leader(), Policy(), evaluation(0, groups))
    assert read_responses(tmp_path / "few", "train").prompt_id.unique().tolist() == ["a", "b"]
    assert read_responses(tmp_path / "few", "eval").prompt_id.unique().tolist() == ["a"]
    frame = read_responses(tmp_path / "all", "train")
    assert frame.prompt_id.nunique() == 5
    assert (frame.is_kept.all(), frame.advantage.tolist()) == (True, [0.5, -0.5] * 5)


def test_resume_forgets_the_steps_of_the_lost_attempt(tmp_path):
    groups = (make_group("h", [1.0], 1),)
    first = ResponseLog(run_dir=tmp_path, every_n_steps=2)
    for step in range(7):
        first.on_evaluation_end(Leader(), Policy(), evaluation(step, groups))
        log_steps(first, step)
    log_steps(ResponseLog(run_dir=tmp_path, every_n_steps=2), 3)  # 3 itself is not kept
    assert read_responses(tmp_path, "train").step.unique().tolist() == [0, 2]
    assert read_responses(tmp_path, "eval").step.unique().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ({"every_n_steps": 0}, "every_n_steps must be a whole number of at least 1; got 0.*~callbacks.response_log"),
        ({"every_n_steps": float("inf")}, "every_n_steps must be a whole number of at least 1; got inf"),
        ({"max_prompts": 1.5}, "max_prompts must be a whole number of at least 1 or inf; got 1.5"),
        ({"max_heldout_prompts": 0}, "max_heldout_prompts must be"),
        ({"max_prompts": float("nan")}, "max_prompts must be"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(size, message):
    with pytest.raises(ValueError, match=message):
        ResponseLog(run_dir="x", **size)


def test_length_quantiles_are_those_of_the_responses():
    empty = ResponseGroup(ResponsePool(Prompt("p", ()), slot=0), ())
    assert ResponseLengths().rollout_figures(make_rollout(4, (empty,))) == {}
    pool = make_pool([0.0] * 11, num_tokens=[10 * index for index in range(11)])
    figures = ResponseLengths().rollout_figures(make_rollout(4, (ResponseGroup(pool, ()),)))
    assert figures == {f"rollout/response_tokens_p{percent}": percent for percent in (10, 50, 90)}
