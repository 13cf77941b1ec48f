import json

import pytest
from mlflow import MlflowClient

from callbacks.mlflow_logger import MLflowTracking
from callbacks.rollout_table import RolloutTable
from tests.unit.callbacks.small_run import Policy, make_group, make_rollout


class Trainer:
    is_global_zero = True
    loggers = ()


def table(folder, step):
    return [json.loads(line) for line in (folder / "rollouts" / f"step_{step:06d}.jsonl").read_text().splitlines()]


def test_each_response_has_a_row_with_its_worth(tmp_path):
    RolloutTable(run_dir=tmp_path).on_rollout_end(
        Trainer(), Policy(), make_rollout(0, (make_group("p", [1, 0, 0], 2),))
    )
    rows = table(tmp_path, 0)
    assert [(row["kept"], row["advantage"], row["reward"]) for row in rows] == [
        (True, 0.5, 1), (True, -0.5, 0), (False, 0.0, 0),
    ]  # fmt: skip
    assert rows[1] == {
        "step": 0, "prompt": "user: question p", "response": "answer 1 — ü", "reward": 0, "kept": True,
        "advantage": -0.5, "truncated": True, "prompt_id": "p", "sample_index": 1,
    }  # fmt: skip


def test_prompts_with_signal_come_first_in_the_order_of_the_step(tmp_path):
    groups = tuple(
        make_group(name, rewards, 2)
        for name, rewards in (("a", [0, 0]), ("b", [1, 0]), ("c", [1, 1]), ("d", [0, 1]), ("e", [1, 0]))
    )
    RolloutTable(run_dir=tmp_path, max_prompts=4).on_rollout_end(Trainer(), Policy(), make_rollout(0, groups))
    assert [row["prompt_id"] for row in table(tmp_path, 0)][::2] == ["b", "d", "e", "a"]


def test_only_every_nth_step_is_kept(tmp_path):
    callback = RolloutTable(run_dir=tmp_path, every_n_steps=2)
    for step in range(4):
        callback.on_rollout_end(Trainer(), Policy(), make_rollout(step))
    assert sorted(path.name for path in (tmp_path / "rollouts").iterdir()) == ["step_000000.jsonl", "step_000002.jsonl"]


def test_sizes_below_one_say_how_to_switch_it_off():
    with pytest.raises(ValueError, match=r"every_n_steps must be at least 1; got 0.*max_prompts.*~callbacks.rollout"):
        RolloutTable(run_dir="x", every_n_steps=0, max_prompts=0)


def test_table_reaches_mlflow(fit, tmp_path, mlflow_uri):
    logger = MLflowTracking(run_dir=tmp_path, run_name="r", experiment_name="tables", tracking_uri=mlflow_uri)
    fit([RolloutTable(run_dir=tmp_path, every_n_steps=2)], loggers=[logger])
    files = MlflowClient(mlflow_uri).list_artifacts(logger.version, "rollouts")
    assert [file.path for file in files] == ["rollouts/step_000000.json", "rollouts/step_000002.json"]
