"""Delivery to servers that are down, come back, hang, forget what they did, or cannot keep files."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pandas as pd
import pytest
import requests
from mlflow import MlflowClient

from ada_lightning.callbacks import mlflow_logger
from ada_lightning.callbacks.mlflow_deliver import main as deliver_main
from ada_lightning.callbacks.mlflow_logger import Delivery
from ada_lightning.callbacks.mlflow_run import MlflowRun
from ada_lightning.run.run_dir import RunDir
from tests.unit.callbacks.small_run import Data
from tests.unit.callbacks.test_mlflow_logger import Tracked


class Server:
    """A real ``mlflow server`` on SQLite, with an address from the start.

    Args:
        folder: of its store; a database there keeps the server from making one, a migration after another.
    """

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self._port}"
        self._folder = folder

    @contextmanager
    def running(self):
        """Until the block ends."""
        command = [
            sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self._port),
            "--workers", "1", "--backend-store-uri", f"sqlite:///{self._folder}/mlflow.db",
            "--artifacts-destination", str(self._folder / "artifacts"),
        ]  # fmt: skip
        with (self._folder / "server.log").open("ab") as out:
            # Nothing here runs jobs in the server, and processes for them take longer to start than it does.
            environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
            server = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True, env=environment)
        try:
            while not self._answers():
                assert server.poll() is None, (self._folder / "server.log").read_text()
                time.sleep(0.2)
            yield
        finally:
            os.killpg(server.pid, signal.SIGTERM)  # it has workers
            server.wait()

    def _answers(self):
        try:
            return requests.get(f"{self.uri}/health", timeout=5).ok
        except requests.RequestException:
            return False


@pytest.fixture
def server(tmp_path_factory, mlflow_uri):
    folder = tmp_path_factory.mktemp("server")
    MlflowClient(mlflow_uri).search_experiments()
    shutil.copy(mlflow_uri.removeprefix("sqlite:///"), folder / "mlflow.db")
    return Server(folder)


def make(path, uri):
    return Tracked(path, run_name=path.name, experiment_name="deliver", tracking_uri=uri)


def main(arguments):
    """Deliver, where a person confirms what the folder says its store is."""
    named = [] if "--tracking-uri" in arguments else _named_in(Path(arguments[0]))
    return deliver_main([*arguments, *named])


def _named_in(path):
    target = path / "mlflow" / "target.json"
    return ["--tracking-uri", json.loads(target.read_text())["tracking_uri"]] if target.exists() else []


def history(uri, run_id, name):
    return [(point.step, point.value) for point in MlflowClient(uri).get_metric_history(run_id, name)]


def run_id(path):
    return (path / "mlflow_run_id").read_text().strip()


@pytest.mark.long
def test_runs_without_their_server_are_delivered_when_the_server_is_there(tmp_path, server, capsys, fit, monkeypatch):
    """One that had ended by then, and one that goes on: everything, in order."""
    monkeypatch.setattr(mlflow_logger, "MAX_RETRY_S", 0.2)
    ended = tmp_path / "down"
    (ended / "responses" / "train").mkdir(parents=True)
    pd.DataFrame({"slot": [0], "reward": [1.0]}).to_parquet(ended / "responses" / "train" / "step_000000.parquet")
    logger = make(ended, server.uri)
    logger.settings({"a": {"b": 1}})
    fit([], loggers=[logger.csv, logger.mlflow])
    assert logger.version == ""
    assert main([str(ended)]) == 1
    assert "failed" in capsys.readouterr().out
    ended_ms = time.time() * 1000
    going_on = make(tmp_path / "later", server.uri)
    for step in range(5):
        going_on.log_metrics({"a": float(step)}, step=step)
    while not going_on.mlflow._has_warned:
        time.sleep(0.05)
    with server.running():
        while not (going_on.version and len(history(server.uri, going_on.version, "a")) == 5):
            time.sleep(0.05)
        going_on.log_metrics({"a": 5.0}, step=5)
        going_on.finalize("success")
        assert history(server.uri, going_on.version, "a") == [(step, float(step)) for step in range(6)]
        assert not Delivery(RunDir(tmp_path / "later")).waiting()
        assert main([str(ended)]) == 0
        _assert_is_whole(ended, server.uri, ended_ms)
        capsys.readouterr()
        assert main([str(ended)]) == 0
        assert "delivered nothing: it has everything" in capsys.readouterr().out


def _assert_is_whole(path, uri, ended_ms):
    run = MlflowClient(uri).get_run(run_id(path))
    assert run.info.status == "FINISHED"
    assert run.info.start_time < run.info.end_time < ended_ms  # the run's own times, not those of the delivery
    assert run.data.params == {"a.b": "1"}
    assert history(uri, run_id(path), "rollout/signal_ratio") == [(0, 0.5), (1, 0.5), (2, 0.5)]
    assert history(uri, run_id(path), "eval/avg_at_4") == [(0, 0.05), (3, 0.56)]
    assert [file.path for file in MlflowClient(uri).list_artifacts(run_id(path))] == ["config.yaml", "responses"]


@pytest.fixture
def uri(mlflow_uri):
    return mlflow_uri


@pytest.fixture
def broken(monkeypatch):
    """Make methods of MlflowRun fail, before or after they did their work; empty it to end that."""
    failures = {}

    def break_method(name):
        original = getattr(MlflowRun, name)

        def method(self, *arguments, **keywords):
            if failures.get(name) == "before":
                raise ConnectionError(f"{name} did not get there")
            result = original(self, *arguments, **keywords)
            if failures.get(name) == "after":
                raise TimeoutError(f"the answer of {name} was lost")
            return result

        monkeypatch.setattr(MlflowRun, name, method)

    for name in ("log_metrics", "_create"):
        break_method(name)
    return failures


def test_answers_that_were_lost_make_nothing_twice(tmp_path, uri, broken):
    path = tmp_path / "lost"
    broken.update(_create="after", log_metrics="after")
    logger = make(path, uri)
    logger.log_metrics({"a": 1.0, "b": float("nan")}, step=0)
    logger.finalize("success")
    broken.pop("_create")
    assert main([str(path)]) == 1
    broken.clear()
    assert main([str(path)]) == 0
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("deliver").experiment_id
    assert len(client.search_runs([experiment], filter_string="attributes.run_name = 'lost'")) == 1
    assert history(uri, run_id(path), "a") == [(0, 1.0)]
    assert len(history(uri, run_id(path), "b")) == 1


def test_resume_delivers_what_its_first_session_could_not_without_the_steps_it_repeats(tmp_path, uri, broken):
    path = tmp_path / "resumed"
    broken.update(log_metrics="before")
    first = make(path, uri)
    for step in range(8):
        first.log_metrics({"a": 1.0}, step=step)
    first.finalize("failed")
    broken.clear()
    second = make(path, uri)
    second.settings({"x": 1})
    for step in range(3, 6):  # the checkpoint was that of step 3
        second.log_metrics({"a": 2.0}, step=step)
    second.finalize("success")
    assert history(uri, second.version, "a") == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 2.0)]
    assert MlflowClient(uri).get_run(second.version).info.status == "FINISHED"


def test_a_repeated_step_is_sent_again_only_where_it_came_out_differently(tmp_path, uri):
    """MLflow only appends: what a lost attempt had sent stays, and what is equal has one point."""
    path = tmp_path / "repeated"
    first = make(path, uri)
    for step in range(6):
        first.log_metrics({"same": step / 3, "time/s": 1.0 + step}, step=step)
    first.finalize("failed")
    for _ in range(2):  # the second is killed before it has repeated all of them
        again = make(path, uri)
        for step in (3, 4):
            again.log_metrics({"same": step / 3, "time/s": 7.5}, step=step)
        again.finalize("failed")
    last = make(path, uri)
    for step in (3, 4, 5, 6):
        last.log_metrics({"same": step / 3, "time/s": 7.5}, step=step)
    last.finalize("success")
    assert history(uri, run_id(path), "same") == [(s, pytest.approx(s / 3)) for s in range(7)]
    assert sorted(step for step, _ in history(uri, run_id(path), "time/s")) == [0, 1, 2, 3, 3, 4, 4, 5, 5, 6]


@pytest.mark.parametrize("cut", [0, 5])
def test_what_was_sent_and_not_noted_makes_no_second_point(tmp_path, uri, cut):
    """A kill between the server's answer and the note of it, or while the note is written."""
    path = tmp_path / f"noted{cut}"
    logger = make(path, uri)
    for step in range(3):
        logger.log_metrics({"a": 1.0, "b": float("nan")}, step=step)
    logger.finalize("success")
    noted = path / "mlflow" / "delivered.jsonl"
    noted.write_bytes(noted.read_bytes()[:cut])
    assert main([str(path)]) == 0
    assert [len(history(uri, run_id(path), name)) for name in "ab"] == [3, 3]


def test_artifact_folder_that_cannot_be_written_holds_up_files_only(tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    (tmp_path / "mlruns").write_text("where the artifacts should go")  # root may write into any folder
    path = tmp_path / "full"
    logger = make(path, uri)
    for step in range(3):
        logger.log_metrics({"a": 1.0}, step=step)
        (path / "curves.png").write_bytes(b"1")
    (path / "curves.png").write_bytes(b"22")
    logger.finalize("success")
    assert len(history(uri, logger.version, "a")) == 3
    assert MlflowClient(uri).get_run(logger.version).info.status == "FINISHED"
    assert main([str(path)]) == 1
    (tmp_path / "mlruns").unlink()
    assert main([str(path)]) == 0
    assert Path(MlflowClient(uri).download_artifacts(logger.version, "curves.png")).read_bytes() == b"22"


def test_what_mlflow_refuses_for_good_holds_up_nothing(tmp_path, uri, caplog):
    path = tmp_path / "refused"
    logger = make(path, uri)
    logger.log_metrics({"../../a": 1.0}, step=0)  # a name that MLflow takes for a way out of its folder
    logger.log_metrics({"b": 1.0}, step=1)
    logger.finalize("success")
    assert history(uri, logger.version, "b") == [(1, 1.0)]
    assert "MLflow refused metrics of step 0 for good" in caplog.text
    assert not Delivery(RunDir(path)).waiting()


def test_killed_run_is_delivered_and_marked(programs, tmp_path, uri, capsys):
    path, program = tmp_path / "killed", tmp_path / "run.py"
    program.write_text(
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tests.unit.callbacks.test_mlflow_logger import Tracked\n"
        "logger = Tracked(Path(sys.argv[1]), run_name='killed', experiment_name='deliver', tracking_uri=sys.argv[2])\n"
        "for step in range(100): logger.log_metrics({'a': 1.0}, step=step)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert programs.run(str(program), path, uri).returncode == -signal.SIGKILL
    assert main([str(path)]) == 0
    assert "the run had been killed" in capsys.readouterr().out
    assert len(history(uri, run_id(path), "a")) == 100
    assert MlflowClient(uri).get_run(run_id(path)).info.status == "KILLED"


def test_run_that_goes_on_is_left_to_itself(tmp_path, uri, capsys):
    path = tmp_path / "going"
    logger = make(path, uri)
    logger.log_metrics({"a": 1.0}, step=0)
    while not logger.mlflow._delivery.lock.is_held:
        time.sleep(0.01)
    assert main([str(path)]) == 1
    assert "delivers by itself" in capsys.readouterr().out
    logger.finalize("success")
    assert main([str(path)]) == 0


def test_folder_that_never_told_mlflow_anything(tmp_path, capsys):
    assert main([str(tmp_path)]) == 0
    assert main([str(tmp_path / "missing")]) == 1
    assert capsys.readouterr().out.count("nothing to deliver") == 2


class Hanging(BaseHTTPRequestHandler):
    """Takes requests and answers none until it is told to fail."""

    release = Event()
    seen = Event()

    def do_GET(self):
        self.seen.set()
        self.release.wait()
        self.send_error(503)

    do_POST = do_GET

    def log_message(self, *arguments):
        pass


def test_server_that_hangs_costs_training_nothing_and_does_not_keep_the_program(tmp_path, fit, monkeypatch, caplog):
    monkeypatch.setattr(mlflow_logger, "MAX_FINISH_WAIT_S", 0.1)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hanging)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    logger = make(tmp_path, f"http://127.0.0.1:{server.server_port}")
    logger.settings({"a": 1})
    Hanging.seen.wait()
    thread = logger.mlflow._thread
    fit([], loggers=[logger.csv, logger.mlflow], data=Data(num_steps=20))  # ends although nothing is ever answered
    assert "has not taken everything" in caplog.text
    Hanging.release.set()
    thread.join()  # or it would meet the next test's patches
    server.shutdown()
    assert Delivery(RunDir(tmp_path)).waiting().startswith("21 steps of metrics")


def folder_naming(path, uri):
    """A run folder that names a store, as somebody may have made it."""
    logger = make(path, "sqlite:////dev/null/mlflow.db")
    logger.log_metrics({"a": 1.0}, step=0)
    logger.finalize("success")
    target = json.loads((path / "mlflow" / "target.json").read_text())
    (path / "mlflow" / "target.json").write_text(json.dumps(target | {"tracking_uri": uri}))
    return path


def test_only_files_of_the_run_folder_are_sent(tmp_path, uri, caplog):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "a.png").write_text("mine")
    (secret / "a.parquet").write_text("mine")
    path = tmp_path / "a" / "theirs"
    (path / "responses").mkdir(parents=True)
    (path / "link.png").symlink_to(secret / "a.png")
    (path / "responses" / "folder").symlink_to(secret)
    (path / "fine.png").write_text("theirs")
    (path / "inside.png").symlink_to("fine.png")
    folder_naming(path, "sqlite:////dev/null/mlflow.db")
    assert main([str(path), "--tracking-uri", uri]) == 0  # the store that moved is named on the command line
    assert history(uri, run_id(path), "a") == [(0, 1.0)]
    assert [file.path for file in MlflowClient(uri).list_artifacts(run_id(path))] == ["fine.png", "inside.png"]
    assert "link.png is outside the run folder" in caplog.text
    assert "a.parquet is outside the run folder" in caplog.text


@pytest.mark.parametrize(
    ("is_terminal", "answer", "own", "code"),
    [(True, "y", False, 0), (True, "", False, 1), (True, "n", False, 1), (False, "", False, 1), (False, "", True, 0)],
)
def test_a_server_that_the_folder_names_is_confirmed(
    tmp_path, uri, monkeypatch, capsys, is_terminal, answer, own, code
):
    """One's own server needs no question; where nobody can be asked another gets nothing."""
    path = folder_naming(tmp_path / "theirs", uri)
    asked = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: (asked.append(question), answer)[1])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri if own else "")
    assert deliver_main([str(path)]) == code
    assert [uri in question for question in asked] == [True] * is_terminal
    assert (path / "mlflow_run_id").exists() == (code == 0)
    assert (f"confirm that, add --tracking-uri {uri}" in capsys.readouterr().out) == (code == 1 and not is_terminal)


def test_no_table_holds_up_the_files_behind_it(tmp_path, uri):
    folder = tmp_path / "run" / "responses" / "train"
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"no Parquet")
    pd.DataFrame({"a": [1]}).to_parquet(folder / "b.parquet")  # no responses
    pd.DataFrame({"slot": [0], "reward": [1.0], "text": ["a\u2028b"]}).to_parquet(folder / "c.parquet")
    logger = make(tmp_path / "run", uri)
    logger.log_metrics({"a": 1.0}, step=0)
    logger.finalize("success")
    assert not Delivery(RunDir(tmp_path / "run")).waiting()
    client = MlflowClient(uri)
    sent = {Path(file.path).name for file in client.list_artifacts(logger.version, "responses/train")}
    assert sent == {"a.parquet", "b.parquet", "c.parquet", "c.json"}
    table = json.loads(Path(client.download_artifacts(logger.version, "responses/train/c.json")).read_text("utf-8"))
    assert table == {"columns": ["slot", "reward", "text"], "data": [[0, 1.0, "a\u2028b"]]}
