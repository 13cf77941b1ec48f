"""What every tracker is told, by one that writes it down; the tools themselves are in the tests beside this one."""

from __future__ import annotations

import logging

import pandas as pd
import pytest

from ada_lightning.callbacks.objective_statement import FILE as OBJECTIVE
from ada_lightning.callbacks.response_log import ResponseLog
from ada_lightning.callbacks.tracker import Dashboard, is_installed
from ada_lightning.config.check import check_config
from ada_lightning.programs.train import name_sweep
from tests.unit.callbacks.small_run import Data, Leader, make_rollout
from tests.unit.config.composing import composed, problems


class Recorder(Dashboard):
    tool, option, package = "Recorder", "recorder", "json"
    how_to_open = "look here"

    def __init__(self, *, fails=(), **arguments):
        super().__init__(**arguments)
        self.fails, self.told = fails, []

    def _tell(self, *what):
        if what[0] in self.fails:
            raise ConnectionError("no route to host")
        self.told.append(what)

    def open(self, settings, *, is_resumed):
        self._tell("open", dict(settings), is_resumed)

    def write_metrics(self, metrics, step):
        self._tell("metrics", dict(metrics), step)

    def write_picture(self, name, path, step):
        self._tell("picture", name, step)

    def write_responses(self, name, responses, step):
        self._tell("responses", name, len(responses), step)

    def write_text(self, name, text, step):
        self._tell("text", name, text)

    def write_page(self, name, path, step):
        self._tell("page", name, step)

    def close(self, *, is_failed):
        self._tell("close", is_failed)


def recorder(folder, **arguments):
    return Recorder(run_dir=folder, run_name="mine", **arguments)


def test_figures_go_out_at_once_and_a_file_once_a_version_also_after_a_resume(tmp_path, capsys):
    tracker = recorder(tmp_path)
    tracker.log_hyperparams({"sampler": {"k_pos": 2}})
    tracker.log_metrics({"a": 1}, step=0)
    (tmp_path / OBJECTIVE).write_text("log p\n")
    (tmp_path / "curves.png").write_bytes(b"1")
    (tmp_path / "samples.html").write_text("<p>")
    log = ResponseLog(run_dir=tmp_path, every_n_steps=1)
    log.on_rollout_end(Leader, None, make_rollout(1))
    tracker.log_metrics({"a": 2.0}, step=3)
    tracker.log_metrics({"a": 3.0}, step=4)
    (tmp_path / "curves.png").write_bytes(b"22")
    tracker.finalize("success")
    tracker.finalize("success")
    assert tracker.told == [
        ("open", {"sampler": {"k_pos": 2}}, False),
        ("metrics", {"a": 1.0}, 0),
        ("metrics", {"a": 2.0}, 3),
        ("text", "objective", "log p\n"),
        ("picture", "curves", 3),
        ("page", "samples", 3),
        ("responses", "responses/train", 4, 1),  # at the policy that drew them
        ("metrics", {"a": 3.0}, 4),
        ("picture", "curves", 4),
        ("close", False),
    ]
    assert capsys.readouterr().out == "Recorder: look here\n"

    resumed = recorder(tmp_path)
    resumed.log_metrics({"a": 4.0}, step=5)
    resumed.finalize("failed")
    assert resumed.told == [("open", {}, True), ("metrics", {"a": 4.0}, 5), ("close", True)]


@pytest.mark.parametrize("heals", ["before the end", "before a resume"])
def test_a_file_that_could_not_be_sent_is_tried_again_at_the_end_and_after_a_resume_and_not_every_step(tmp_path, heals):
    tracker = recorder(tmp_path, fails=("picture",))
    for name in ("curves.png", "sampling.png"):
        (tmp_path / name).write_bytes(b"1")
    for step in range(3):
        tracker.log_metrics({}, step=step)
    if heals == "before the end":
        tracker.fails = ()
    tracker.finalize("failed")
    sent = [what for what in tracker.told if what[0] == "picture"]
    assert len(sent) == 2 * (heals == "before the end")
    resumed = recorder(tmp_path)
    resumed.log_metrics({}, step=3)
    assert len(sent) + len([what for what in resumed.told if what[0] == "picture"]) == 2


@pytest.mark.parametrize("fails", ["open", "metrics", "picture", "close"])
def test_a_tool_that_fails_is_warned_of_once_and_stops_nothing(tmp_path, fit, caplog, capsys, fails):
    tracker = recorder(tmp_path, fails=(fails,))
    (tmp_path / "curves.png").write_bytes(b"1")
    with caplog.at_level(logging.WARNING, "ada_lightning.callbacks.tracker"):
        fit([], loggers=[tracker], data=Data(num_steps=2))
    (message,) = [record.message for record in caplog.records if record.name.endswith("tracker")]
    assert message.startswith("Recorder failed (ConnectionError: no route to host). Training goes on")
    kinds = [what[0] for what in tracker.told]
    assert kinds.count("metrics") == {"open": 0, "metrics": 0}.get(fails, 4)  # two evaluations, two updates
    assert "look here" not in capsys.readouterr().out


def test_a_run_that_failed_is_closed_as_one(tmp_path, fit):
    tracker = recorder(tmp_path)
    with pytest.raises(RuntimeError):
        fit([], loggers=[tracker], data=Data(fail_at=1, error=RuntimeError()))
    assert tracker.told[-1] == ("close", True)


def test_a_long_table_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("ada_lightning.callbacks.tracker.MAX_TABLE_ROWS", 3)
    (tmp_path / "responses/eval").mkdir(parents=True)
    pd.DataFrame({"policy_version": [7] * 9}).to_parquet(tmp_path / "responses/eval/step_000007.parquet")
    tracker = recorder(tmp_path)
    tracker.log_metrics({}, step=7)
    assert tracker.told[-1] == ("responses", "responses/eval", 3, 7)


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("csv", ["csv"]),
        ("mlflow", ["csv", "mlflow"]),
        ("[csv,tensorboard]", ["csv", "tensorboard"]),
        ("[csv,mlflow]", ["csv", "mlflow"]),
        ("[wandb,trackio,tensorboard,mlflow]", ["csv", "wandb", "trackio", "tensorboard", "mlflow"]),
    ],
)
def test_loggers_combine_and_each_comes_with_the_file_of_figures_before_it(choice, names, monkeypatch, tmp_path):
    monkeypatch.setattr("ada_lightning.callbacks.tracker.is_installed", lambda name: True)
    cfg = composed(f"logger={choice}", f"run_dir={tmp_path / 'run'}")
    assert list(cfg.logger) == names
    check_config(cfg)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_a_tool_that_is_not_installed_is_refused_before_any_model_loads(name, monkeypatch):
    monkeypatch.setattr("ada_lightning.callbacks.tracker.is_installed", lambda name: False)
    (problem,) = problems(f"logger={name}")
    assert problem.startswith(f"logger.{name}: logger={name} needs the package {name}, which is not installed: pip")
    assert f"ada-lightning[{name}]" in problem


def test_a_mode_that_wandb_does_not_have_is_refused(monkeypatch):
    monkeypatch.setattr("ada_lightning.callbacks.tracker.is_installed", lambda name: True)
    assert any("logger.wandb.mode must be online, offline or null" in text
               for text in problems("logger=wandb", "logger.wandb.mode=off"))  # fmt: skip


def test_a_sweep_gives_its_name_to_every_tracker_that_groups_runs():
    cfg = composed("logger=[mlflow,wandb,trackio,tensorboard]")
    name_sweep(cfg.logger, "mine")
    assert (cfg.logger.mlflow.parent, cfg.logger.wandb.group, cfg.logger.trackio.group) == ("mine", "mine", "mine")
    assert "group" not in cfg.logger.tensorboard


def test_a_folder_of_a_tools_name_is_no_tool(tmp_path, monkeypatch):
    (tmp_path / "tool_of_nobody" / "run").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert is_installed("json")
    assert not is_installed("tool_of_nobody")
    assert not is_installed("tool_that_is_not_there")
