import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

import callbacks.mlflow_logger
from ada_lightning.run_dir import RunDir
from callbacks.metrics_csv import MetricsCsv, read_metrics
from callbacks.mlflow_logger import MLflowTracking
from tests.unit.callbacks.small_run import Data


@pytest.fixture
def make(tmp_path, mlflow_uri, request):
    def make(name="run", **arguments):
        arguments = {"experiment_name": request.node.name, "tracking_uri": mlflow_uri} | arguments
        return MLflowTracking(run_dir=tmp_path / name, run_name=name, **arguments)

    return make


def stored(logger):
    return MlflowClient(logger.tracking_uri).get_run(logger.version)


def artifacts(logger, folder=None):
    return [file.path for file in MlflowClient(logger.tracking_uri).list_artifacts(logger.version, folder)]


def test_metrics_arrive_under_names_that_mlflow_accepts(make):
    logger = make()
    for step in range(3):
        logger.log_metrics({"eval/avg@4": step / 2, "odd;name": 1.0}, step=step)
    logger.finalize("success")
    history = MlflowClient(logger.tracking_uri).get_metric_history(logger.version, "eval/avg_at_4")
    assert [(point.step, point.value) for point in history] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert stored(logger).data.metrics["odd_name"] == 1.0
    assert stored(logger).info.status == "FINISHED"
    assert stored(logger).info.run_name == "run"


def test_metrics_that_queued_up_go_out_in_one_request(make, monkeypatch):
    batches = []
    monkeypatch.setattr(callbacks.mlflow_run.MlflowRun, "log_metrics", lambda self, points: batches.append(len(points)))
    logger = make()
    for step in range(50):  # the thread is still importing and connecting
        logger.log_metrics({"a": 1.0, "b": 2.0}, step=step)
    logger.finalize("success")
    assert sum(batches) == 100
    assert len(batches) <= 3


def test_more_parameters_than_one_request_takes_and_longer_than_a_value_may_be(make):
    logger = make()
    logger.log_hyperparams({"many": {f"p{i}": i for i in range(250)}, "long": "x" * 9000, "list": [1, None]})
    logger.finalize("success")
    params = stored(logger).data.params
    assert len(params) == 252
    assert (params["many.p249"], params["list"], len(params["long"])) == ("249", "[1, null]", 6000)


def test_config_file_is_an_artifact(make, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("a: 1\n")
    logger = make()
    logger.log_hyperparams({"a": 1})
    logger.finalize("success")
    assert artifacts(logger) == ["config.yaml"]


def test_resume_continues_the_same_run_and_tells_changed_settings(make, caplog):
    first = make()
    first.log_hyperparams({"lr": 1, "seed": 0, "long": "x" * 9000})
    first.log_metrics({"a": 1.0}, step=0)
    first.finalize("failed")
    assert stored(first).info.status == "FAILED"
    resumed = make()
    resumed.log_hyperparams({"lr": 2, "seed": 0, "long": "x" * 9000, "new": 3})
    resumed.log_metrics({"a": 2.0}, step=1)
    resumed.finalize("success")
    assert resumed.version == first.version
    run = stored(resumed)
    assert run.info.status == "FINISHED"
    assert run.data.params == {"lr": "1", "seed": "0", "long": "x" * 6000, "new": "3"}
    assert run.data.tags["resumed.lr"] == "2"
    assert len(MlflowClient(first.tracking_uri).get_metric_history(first.version, "a")) == 2
    assert "settings differ from the start of this run: lr;" in caplog.text


def test_runs_of_a_sweep_share_one_parent(make):
    loggers = [make(f"job{i}", parent='k\'s "sweep"') for i in range(2)]
    for logger in loggers:
        logger.log_metrics({"a": 1.0}, step=0)
        logger.finalize("success")
    parents = {stored(logger).data.tags["mlflow.parentRunId"] for logger in loggers}
    assert len(parents) == 1
    parent = MlflowClient(loggers[0].tracking_uri).get_run(parents.pop())
    assert (parent.info.run_name, parent.info.status) == ('k\'s "sweep"', "FINISHED")
    runs = MlflowClient(loggers[0].tracking_uri).search_runs([parent.info.experiment_id])
    assert len(runs) == 3


def test_table_is_listed_for_the_ui(make, monkeypatch, mlflow_uri):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)  # load_table looks nowhere else
    logger = make()
    logger.log_table("rollouts/step_000000.json", [{"prompt": "1+1", "reward": 1.0}, {"prompt": "2+2", "reward": 0.0}])
    logger.finalize("success")
    assert artifacts(logger, "rollouts") == ["rollouts/step_000000.json"]
    table = MlflowClient(logger.tracking_uri).load_table(
        stored(logger).info.experiment_id, "rollouts/step_000000.json", [logger.version]
    )
    assert table.to_dict("list") == {"prompt": ["1+1", "2+2"], "reward": [1.0, 0.0]}


def test_list_of_tables_stays_within_the_length_of_a_tag(make, monkeypatch):
    monkeypatch.setattr(callbacks.mlflow_run, "MAX_TABLES", 3)
    logger = make()
    for step in range(5):
        logger.log_table(f"step_{step}.json", [{"a": 1}])
    logger.finalize("success")
    listed = json.loads(stored(logger).data.tags["mlflow.loggedArtifacts"])
    assert [entry["path"] for entry in listed] == ["step_2.json", "step_3.json", "step_4.json"]


@pytest.mark.parametrize(
    ("error", "raised", "status"),
    [(KeyboardInterrupt(), SystemExit, "KILLED"), (RuntimeError("boom"), RuntimeError, "FAILED")],
)
def test_lightning_ends_the_run_with_the_right_status(fit, make, error, raised, status):
    logger = make()
    with pytest.raises(raised):
        fit([], loggers=[logger], data=Data(fail_at=1, error=error))
    assert stored(logger).info.status == status


def test_sigterm_is_not_a_failure(fit, make):
    from lightning.pytorch.utilities.exceptions import SIGTERMException

    logger = make()
    with pytest.raises(SIGTERMException):
        fit([], loggers=[logger], data=Data(fail_at=1, error=SIGTERMException()))
    assert stored(logger).info.status == "KILLED"


def test_finished_training_has_every_metric(fit, make):
    logger = make()
    fit([], loggers=[logger])
    run = stored(logger)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["eval/avg_at_4"] == 0.56
    assert run.data.metrics["rollout/signal_ratio"] == 0.5


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9", "sqlite:////dev/null/mlflow.db", "nonsense://x"])
def test_training_goes_on_where_mlflow_does_not(fit, make, tmp_path, caplog, monkeypatch, uri):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(callbacks.mlflow_run.time, "sleep", lambda seconds: None)
    logger = make(tracking_uri=uri)
    with caplog.at_level(logging.WARNING, "callbacks.mlflow_logger"):
        fit([], loggers=[MetricsCsv(run_dir=tmp_path), logger])
    assert len(read_metrics(tmp_path / "metrics.csv")) == 4
    warnings = [record for record in caplog.records if record.name == "callbacks.mlflow_logger"]
    assert len(warnings) == 1
    assert "metrics.csv" in warnings[0].getMessage()
    assert logger.version == ""


def test_server_that_hangs_does_not_keep_the_program(make, monkeypatch, caplog):
    from threading import Event

    release = Event()
    monkeypatch.setattr(callbacks.mlflow_run.MlflowRun, "__init__", lambda self, **arguments: release.wait())
    monkeypatch.setattr(callbacks.mlflow_logger, "MAX_FINISH_WAIT_S", 0.05)
    logger = make()
    logger.log_metrics({"a": 1.0}, step=0)
    thread = logger._thread
    logger.finalize("success")
    assert "did not take everything" in caplog.text
    release.set()
    thread.join()  # or it would meet the next test's patches


def test_slow_failures_are_not_repeated_at_once(make, monkeypatch):
    attempts = []

    def fail(self, **arguments):
        attempts.append(1)
        raise TimeoutError("no answer")

    monkeypatch.setattr(callbacks.mlflow_run.MlflowRun, "__init__", fail)
    monkeypatch.setattr(callbacks.mlflow_logger, "SLOW_FAILURE_S", -1.0)
    logger = make()
    for step in range(3):
        logger.log_metrics({"a": 1.0}, step=step)
        while not logger._queue.empty():
            time.sleep(0.01)
    logger.finalize("success")
    assert len(attempts) == 2  # the first points, and the end of the run, which nobody else would report


def test_database_lies_where_the_program_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logger = MLflowTracking(run_dir=tmp_path / "run", run_name="run", experiment_name="x")
    assert logger.tracking_uri == f"sqlite:///{tmp_path}/mlflow.db"
    assert logger.how_to_open == f"mlflow ui --backend-store-uri sqlite:///{tmp_path}/mlflow.db"


def test_nothing_is_made_before_something_is_logged(make, tmp_path):
    make().finalize("success")
    assert RunDir(tmp_path / "run").mlflow_run_id == ""


def test_importing_the_logger_does_not_import_mlflow():
    code = "import sys, callbacks.mlflow_logger; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3], check=False).returncode == 0
