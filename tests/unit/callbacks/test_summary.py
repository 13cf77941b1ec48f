import json
import re

import pytest
from lightning.pytorch import Callback

from ada_lightning.callbacks.cost_preview import PreviewDone
from ada_lightning.callbacks.metrics_csv import MetricsCsv
from ada_lightning.callbacks.mlflow_logger import MLflowTracking
from ada_lightning.callbacks.summary import Summary
from tests.unit.callbacks.small_run import Data, Driver


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def test_final_figures_of_a_run(fit, tmp_path):
    fit([Summary(run_dir=tmp_path)], loggers=[MetricsCsv(run_dir=tmp_path)])
    figures = summary(tmp_path)
    assert figures["status"] == "finished"
    assert figures["heldout"] == {
        "eval/avg_at_4": {"before": 0.05, "before_policy_version": 0, "after": 0.56, "after_policy_version": 3}
    }
    assert (figures["steps"], figures["policy_version"]) == (3, 3)
    assert (figures["responses"], figures["generated_tokens"]) == (12, 30)
    assert figures["grader_failure_ratio"] == {"timeout": 0.25}
    assert figures["signal_ratio_mean"] == 0.5
    assert figures["seconds"].keys() == {"rollout", "update"}
    assert 0.05 < figures["peak_memory_gb"] < 100


def test_closing_lines_tell_what_came_out_and_where(fit, tmp_path, capsys, mlflow_uri):
    logger = MLflowTracking(run_dir=tmp_path, run_name="r", experiment_name="summaries", tracking_uri=mlflow_uri)
    fit([Summary(run_dir=tmp_path)], loggers=[logger])
    lines = capsys.readouterr().out.splitlines()[-4:]
    assert [re.sub(r"steps, \w+", "steps, 0s", line) for line in lines] == [
        "held-out avg@4: 0.050 -> 0.560 (3 steps, 0s)",
        f"run folder: {tmp_path}",
        f"one page of it: python report.py {tmp_path}",
        f"curves: mlflow ui --backend-store-uri {mlflow_uri}",
    ]


@pytest.mark.parametrize(
    ("error", "raised", "status", "text"),
    [
        (KeyboardInterrupt(), SystemExit, "interrupted", ""),
        (RuntimeError("boom"), RuntimeError, "failed", "RuntimeError: boom"),
    ],
)
def test_run_that_ends_early_has_a_summary_too(fit, tmp_path, capsys, error, raised, status, text):
    with pytest.raises(raised):
        fit([Summary(run_dir=tmp_path)], data=Data(fail_at=2, error=error))
    figures = summary(tmp_path)
    assert (figures["status"], figures["error"]) == (status, text)
    assert (figures["steps"], figures["policy_version"]) == (2, 2)
    assert figures["heldout"]["eval/avg_at_4"]["after_policy_version"] == 0
    out = capsys.readouterr().out
    assert f"the run {status}" in out.splitlines()  # why is told by the program
    assert "held-out avg@4: 0.050 -> not measured (2 steps" in out


def test_resumed_run_compares_with_the_original_start_and_counts_all_steps(fit, tmp_path):
    first = Summary(run_dir=tmp_path)
    with pytest.raises(RuntimeError):
        fit([first], [MetricsCsv(run_dir=tmp_path)], Data(num_steps=4, fail_at=2, error=RuntimeError("killed")))
    state = json.loads(json.dumps(first.state_dict())) | {"seconds": {"update": 100.0, "start": 7.0}, "wall_s": 120.0}

    resumed = Summary(run_dir=tmp_path)
    resumed.load_state_dict(state)
    rest = Data(num_steps=4, first_step=2)
    fit([resumed], [MetricsCsv(run_dir=tmp_path)], rest, driver=Driver(scores=(None, 0.7)))
    figures = summary(tmp_path)
    assert figures["heldout"]["eval/avg_at_4"]["before"] == 0.05
    assert figures["heldout"]["eval/avg_at_4"]["after"] == 0.7
    assert (figures["steps"], figures["responses"]) == (4, 16)
    assert figures["grader_failure_ratio"] == {"timeout": 0.25}  # of both parts of the run
    assert 100 <= figures["seconds"]["update"] < 120
    assert figures["seconds"].keys() == {"start", "update", "rollout"}
    assert 120 < figures["wall_s"] < 140


def test_other_held_out_prompts_are_not_compared_with_those_of_before(fit, tmp_path):
    first = Summary(run_dir=tmp_path)
    with pytest.raises(RuntimeError):
        fit([first], [MetricsCsv(run_dir=tmp_path)], Data(num_steps=4, fail_at=2, error=RuntimeError("killed")))
    resumed, rest = Summary(run_dir=tmp_path), Data(num_steps=4, first_step=2)
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    rest.heldout_changed = True
    fit([resumed], [MetricsCsv(run_dir=tmp_path)], rest, driver=Driver(scores=(None, 0.7)))
    figures = summary(tmp_path)["heldout"]["eval/avg_at_4"]
    assert (figures["before"], figures["after"]) == (0.7, 0.7)
    assert summary(tmp_path)["heldout_since"] == 3
    again = Summary(run_dir=tmp_path)
    again.load_state_dict(json.loads(json.dumps(resumed.state_dict())))
    assert again._heldout()["eval/avg_at_4"]["before"] == 0.7


def test_preview_leaves_no_summary(fit, tmp_path, capsys):
    with pytest.raises(PreviewDone):
        fit([Summary(run_dir=tmp_path)], data=Data(fail_at=0, error=PreviewDone()))
    assert not (tmp_path / "summary.json").exists()
    assert "run folder" not in capsys.readouterr().out


class StopInThirdUpdate(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == 2:
            raise RuntimeError("killed")


def test_a_step_that_was_stopped_between_its_updates_counts_once(fit, tmp_path):
    first = Summary(run_dir=tmp_path)
    with pytest.raises(RuntimeError):
        fit([first, StopInThirdUpdate()], data=Data(num_steps=2, updates_per_rollout=2))
    assert first.state_dict()["counts"]["steps"] == 1
    resumed = Summary(run_dir=tmp_path)
    resumed.load_state_dict(first.state_dict())
    fit([resumed], data=Data(num_steps=2, updates_per_rollout=2, first_step=1))
    assert summary(tmp_path)["steps"] == 2


def test_a_session_that_never_began_leaves_the_summary_as_it_was(tmp_path):
    (tmp_path / "summary.json").write_text('{"status": "finished"}')
    Summary(run_dir=tmp_path).on_exception(None, None, RuntimeError("refused"))
    assert summary(tmp_path) == {"status": "finished"}
