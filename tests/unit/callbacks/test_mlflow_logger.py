import json
import logging
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from threading import Event

import pandas as pd
import pytest
from lightning.pytorch.utilities.exceptions import SIGTERMException
from mlflow import MlflowClient

from ada_lightning.callbacks import mlflow_run
from ada_lightning.callbacks.metrics_csv import MetricsCsv, read_metrics
from ada_lightning.callbacks.mlflow_logger import MLflowTracking
from ada_lightning.run.metrics_file import read_cells
from ada_lightning.run.run_dir import RunDir
from tests.unit.callbacks.small_run import Data


class Tracked:
    """Logs as a run does: first to the folder, then to MLflow."""

    def __init__(self, folder, **arguments):
        self.csv, self.mlflow = MetricsCsv(run_dir=folder), MLflowTracking(run_dir=folder, **arguments)
        self.tracking_uri = self.mlflow.tracking_uri

    def settings(self, values, file="config.yaml"):
        self.csv.path.parent.mkdir(parents=True, exist_ok=True)
        (self.csv.path.parent / file).write_text(json.dumps(values))
        self.mlflow.log_hyperparams(values)

    def log_metrics(self, metrics, step):
        self.csv.log_metrics(metrics, step=step)
        self.mlflow.log_metrics(metrics, step=step)

    def finalize(self, status):
        self.mlflow.finalize(status)

    @property
    def version(self):
        return self.mlflow.version


@pytest.fixture
def make(tmp_path, mlflow_uri, request):
    def make(name="run", **arguments):
        arguments = {"experiment_name": request.node.name, "tracking_uri": mlflow_uri, "run_name": name} | arguments
        return Tracked(tmp_path / name, **arguments)

    return make


def stored(logger):
    return MlflowClient(logger.tracking_uri).get_run(logger.version)


def artifacts(logger, folder=None):
    return [file.path for file in MlflowClient(logger.tracking_uri).list_artifacts(logger.version, folder)]


def test_metrics_arrive_under_names_that_mlflow_accepts_with_the_times_of_their_rows(make):
    logger = make()
    for step in range(3):
        logger.csv.log_metrics({"eval/avg@4": step / 2}, step=step)
        logger.log_metrics({"odd;name": 1.0}, step=step)
    logger.finalize("success")
    rows = read_cells(logger.csv.path)[1]
    for name, values in (("eval/avg_at_4", (0.0, 0.5, 1.0)), ("odd_name", (1.0, 1.0, 1.0))):
        history = MlflowClient(logger.tracking_uri).get_metric_history(logger.version, name)
        expected = [
            (step, value, int(row["unix_ms"])) for step, (value, row) in enumerate(zip(values, rows, strict=True))
        ]
        assert [(point.step, point.value, point.timestamp) for point in history] == expected
    assert (stored(logger).info.status, stored(logger).info.run_name) == ("FINISHED", "run")


def test_metrics_that_queued_up_go_out_in_one_request(make, monkeypatch):
    batches = []
    monkeypatch.setattr(
        mlflow_run.MlflowRun, "log_metrics", lambda self, rows: batches.append(sum(len(cells) for _, cells in rows))
    )
    logger = make()
    for step in range(50):  # the thread is still importing and connecting
        logger.log_metrics({"a": 1.0, "b": 2.0}, step=step)
    logger.finalize("success")
    assert sum(batches) == 100
    assert len(batches) <= 3


def test_more_parameters_than_one_request_takes_and_longer_than_a_value_may_be(make):
    logger = make()
    logger.settings({"many": {f"p{i}": i for i in range(250)}, "long": "x" * 9000, "list": [1, None]})
    logger.finalize("success")
    params = stored(logger).data.params
    assert len(params) == 252
    assert (params["many.p249"], params["list"], len(params["long"])) == ("249", "[1, null]", 6000)


def test_artifacts_are_what_the_folder_has_and_tags_how_the_alarms_stand(make, tmp_path):
    logger = make()
    files = {
        "data_report.json": "{}", "prompts.csv": "step", "curves.png": "p", "samples.html": "<p>", "engine.log": "no",
        "responses/train/step_000000.parquet": "r", "checkpoints/last/x.png": "no", ".hidden.png": "no",
        "alarms.json": '{"flat": "over"}',
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_text(text)
    logger.settings({"a": 1})
    logger.log_metrics({"a": 1.0}, step=0)
    logger.finalize("success")
    files = ["config.yaml", "curves.png", "data_report.json", "prompts.csv", "responses", "samples.html"]
    assert artifacts(logger) == files
    assert artifacts(logger, "responses/train") == ["responses/train/step_000000.parquet"]
    assert stored(logger).data.tags["alarm.flat"] == "over"


def test_resume_continues_the_same_run_and_tells_changed_settings(make, caplog):
    first = make()
    first.settings({"lr": 1, "seed": 0, "long": "x" * 9000, "ckpt": None})
    first.log_metrics({"a": 1.0}, step=0)
    first.finalize("failed")
    assert stored(first).info.status == "FAILED"
    resumed = make()
    resumed.settings({"lr": 2, "seed": 0, "long": "x" * 9000, "new": 3, "ckpt": "last"}, "config-resumed-1.yaml")
    resumed.log_metrics({"a": 2.0}, step=1)
    resumed.finalize("success")
    assert resumed.version == first.version
    run = stored(resumed)
    assert run.info.status == "FINISHED"
    assert run.data.params == {"lr": "1", "seed": "0", "long": "x" * 6000, "new": "3", "ckpt": "null"}
    assert {name: tag for name, tag in run.data.tags.items() if name.startswith("resumed.")} == {"resumed.lr": "2"}
    assert len(MlflowClient(first.tracking_uri).get_metric_history(first.version, "a")) == 2
    assert "settings differ from the start of this run: lr;" in caplog.text


def test_a_run_stays_in_its_experiment_and_that_is_said(make, caplog):
    ids = []
    for name in ("mine", "mine", "other"):
        logger = make(experiment_name=name)
        logger.settings({"seed": 0})
        logger.finalize("success")
        ids.append(logger.version)
        assert ("goes on in MLflow's experiment mine and not in other" in caplog.text) == (name == "other")
    assert len(set(ids)) == 1


def test_a_store_that_does_not_have_the_run_gets_all_of_it_and_the_first_one_goes_on_with_its_own(
    make, tmp_path, caplog, mlflow_uri
):
    ids = []
    for step, uri in enumerate((mlflow_uri, f"sqlite:///{tmp_path}/other.db", mlflow_uri)):
        logger = make(tracking_uri=uri)
        logger.settings({"seed": 0})
        logger.log_metrics({"a": step}, step=step)
        logger.finalize("success")
        history = MlflowClient(uri).get_metric_history(logger.version, "a")
        assert [point.step for point in history] == list(range(step + 1))
        assert stored(logger).data.params == {"seed": "0"}
        ids.append(logger.version)
    assert ids[0] == ids[2] != ids[1]
    assert "MLflow failed" not in caplog.text
    assert f"does not have run {ids[0]} of this folder; it gets all of it" in caplog.text


def test_sweep_has_a_table_of_what_differs_between_its_runs_and_what_came_out(make):
    loggers = [make(f"job{i}", parent='k\'s "sweep"') for i in range(2)]
    for i, logger in enumerate(loggers):
        logger.settings({"sampler": {"k_pos": 2 + i, "n_max": 32}, "run_name": f"job{i}"})
        logger.log_metrics({"eval/avg_at_4": 0.1, "train/loss": 9.0}, step=0)
        logger.log_metrics({"eval/avg_at_4": 0.5 + i / 4}, step=3)
        logger.finalize("success" if i else "failed")
    client = MlflowClient(loggers[0].tracking_uri)
    (parent_id,) = {stored(logger).data.tags["mlflow.parentRunId"] for logger in loggers}
    parent = client.get_run(parent_id)
    assert (parent.info.run_name, parent.info.status) == ('k\'s "sweep"', "FINISHED")
    table = json.loads(Path(client.download_artifacts(parent.info.run_id, "runs.json")).read_text())
    assert table == {
        "columns": ["run", "status", "sampler/k_pos", "eval/avg_at_4", "rollout/signal_ratio"],
        "data": [["job0", "FAILED", "2", 0.5, None], ["job1", "FINISHED", "3", 0.75, None]],
    }
    assert parent.data.tags["best_run"] == "job1"
    assert parent.data.metrics["best/eval/avg_at_4"] == 0.75


def test_table_is_listed_for_the_ui(make, monkeypatch, mlflow_uri, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)  # load_table looks nowhere else
    monkeypatch.setattr(mlflow_run, "MAX_TABLES", 3)  # the list must fit into a tag
    logger = make()
    folder = tmp_path / "run" / "responses" / "train"
    folder.mkdir(parents=True)
    rewards = {"slot": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], "reward": [0.0, 0, 1, 0, 1, 1, 0, 1, 1, 0]}
    for step in range(5):
        pd.DataFrame(rewards).to_parquet(folder / f"step_{step}.parquet")
    logger.log_metrics({"a": 1.0}, step=0)
    logger.finalize("success")
    listed = json.loads(stored(logger).data.tags["mlflow.loggedArtifacts"])
    assert [entry["path"] for entry in listed] == [f"responses/train/step_{step}.json" for step in (2, 3, 4)]
    table = MlflowClient(logger.tracking_uri).load_table(
        stored(logger).info.experiment_id, "responses/train/step_4.json", [logger.version]
    )
    assert table["slot"].tolist() == [0, 0, 1, 1, 3, 3, 4, 4]  # those that differ, and the first of the others


@pytest.mark.parametrize(
    ("error", "raised", "status"),
    [
        (None, None, "FINISHED"),
        (KeyboardInterrupt(), SystemExit, "KILLED"),
        (SIGTERMException(), SIGTERMException, "KILLED"),
        (RuntimeError("boom"), RuntimeError, "FAILED"),
    ],
)
def test_lightning_ends_the_run_with_the_right_status(fit, make, error, raised, status):
    logger = make()
    with pytest.raises(raised) if raised else nullcontext():
        fit([], loggers=[logger.csv, logger.mlflow], data=Data(fail_at=1 if error else -1, error=error))
    assert stored(logger).info.status == status
    if not error:
        assert stored(logger).data.metrics["eval/avg_at_4"] == 0.56
        assert stored(logger).data.metrics["rollout/signal_ratio"] == 0.5


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////dev/null/mlflow.db", "nonsense://x"])
def test_training_goes_on_where_mlflow_does_not(fit, make, tmp_path, caplog, monkeypatch, uri):
    monkeypatch.setattr(mlflow_run.time, "sleep", lambda seconds: None)
    logger = make(tracking_uri=uri)
    with caplog.at_level(logging.WARNING, "ada_lightning.callbacks"):
        fit([], loggers=[logger.csv, logger.mlflow])
    assert len(read_metrics(tmp_path / "run" / "metrics.csv")) == 4
    warnings = [record for record in caplog.records if record.name.startswith("ada_lightning.callbacks")]
    assert len(warnings) == 2
    assert "metrics.csv" in warnings[0].getMessage()
    assert f"python -m ada_lightning.callbacks.mlflow_deliver {tmp_path / 'run'}" in warnings[1].getMessage()
    assert logger.version == ""


def test_pauses_between_attempts_grow(make, monkeypatch):
    pauses = []

    class Ending(Event):
        def set(self):
            pass

        def wait(self, seconds):
            pauses.append(seconds)
            if len(pauses) == 8:
                super().set()

    def fail(self, **arguments):
        raise ConnectionError("nobody listens")

    monkeypatch.setattr(mlflow_run.MlflowRun, "__init__", fail)
    logger = make()
    logger.mlflow._is_ending = Ending()
    logger.log_metrics({"a": 1.0}, step=0)
    logger.mlflow._thread.join()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_database_lies_where_the_program_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logger = MLflowTracking(run_dir=tmp_path / "run", run_name="run", experiment_name="x")
    assert logger.tracking_uri == f"sqlite:///{tmp_path}/mlflow.db"
    assert logger.how_to_open == f"mlflow ui --backend-store-uri sqlite:///{tmp_path}/mlflow.db"


def test_nothing_is_made_before_something_is_logged(make, tmp_path):
    make().finalize("success")
    assert RunDir(tmp_path / "run").mlflow_run_id == ""


@pytest.mark.long
def test_importing_the_logger_does_not_import_mlflow():
    code = "import sys, ada_lightning.callbacks.mlflow_logger; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False).returncode == 0


def test_without_metrics_csv_there_is_nothing_to_send_and_that_is_said(make, caplog):
    logger = make()
    logger.mlflow.log_metrics({"a": 1.0}, step=0)
    logger.finalize("success")
    assert "keep logger.csv" in caplog.text


def test_run_folder_that_cannot_be_written_does_not_stop_training(make, tmp_path, caplog):
    (tmp_path / "run").write_text("a file where the folder should be")
    logger = make().mlflow
    logger.log_metrics({"a": 1.0}, step=0)
    logger.log_hyperparams({"a": 1})
    logger.finalize("success")
    assert "FileExistsError" in caplog.text or "NotADirectoryError" in caplog.text
