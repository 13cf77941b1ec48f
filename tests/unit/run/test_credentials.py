"""Passwords of tracking stores: nowhere but where MLflow looks for them."""

import base64
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from omegaconf import OmegaConf

from ada_lightning.callbacks.mlflow_deliver import main
from ada_lightning.callbacks.mlflow_logger import MLflowTracking
from ada_lightning.run.credentials import VARIABLES, hidden, take, take_from_config, take_from_start, whole

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in (*VARIABLES, "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(name, "")  # put back afterwards, whatever a test leaves there
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://me:s3cret@host:5000/a", "http://host:5000/a"),
        ("https://s3cret@host", "https://host"),
        ("https://me:s3cret%40x@host/a@b", "https://host/a@b"),
        ("postgresql+psycopg2://me:s3cret@host/db", "postgresql+psycopg2://host/db"),
        ("mysql://host/db?ssl=1&password=s3cret", "mysql://host/db?ssl=1&password="),
        ("sqlite:////home/me@x/mlflow.db", "sqlite:////home/me@x/mlflow.db"),
        ("databricks", "databricks"),
    ],
)
def test_an_address_is_shown_without_its_password_and_still_leads_there(uri, shown, environment):
    assert take(uri) == shown == hidden(uri)
    assert whole(shown) == (shown if uri.startswith("http") else uri)


def test_mlflow_gets_what_the_address_had(environment):
    take("http://me:s3%40cret@host")
    assert (os.environ["MLFLOW_TRACKING_USERNAME"], os.environ["MLFLOW_TRACKING_PASSWORD"]) == ("me", "s3@cret")


@pytest.mark.parametrize(
    ("argument", "kept"),
    [
        ("logger.mlflow.tracking_uri=http://me:s3cret@host", "logger.mlflow.tracking_uri=http://host"),
        ("mlflow.tracking_uri='http://me:s3cret@host'", "mlflow.tracking_uri='http://host'"),
        (
            "logger.mlflow={tracking_uri: http://me:s3cret@host, a: b}",
            "logger.mlflow={tracking_uri: http://host, a: b}",
        ),
        ("reward.reward.arguments.url=http://me:key@grader", "reward.reward.arguments.url=http://me:key@grader"),
    ],
)
def test_a_command_line_is_kept_without_it(argument, kept, environment):
    assert take_from_start([argument, "seed=1"]) == [kept, "seed=1"]


def test_variable_and_configuration_are_read_without_it(environment):
    environment.setenv("MLFLOW_TRACKING_URI", "postgresql://me:s3cret@host/db")
    take_from_start([])
    assert os.environ["MLFLOW_TRACKING_URI"] == "postgresql://host/db"
    assert whole("postgresql://host/db") == "postgresql://me:s3cret@host/db"
    cfg = OmegaConf.create({"logger": {"mlflow": {"tracking_uri": "http://me:s3cret@host"}}})
    take_from_config(cfg)
    assert OmegaConf.to_yaml(cfg).split() == ["logger:", "mlflow:", "tracking_uri:", "http://host"]
    take_from_config(OmegaConf.create({"logger": {}, "mlflow": None}))


class Refusing(BaseHTTPRequestHandler):
    """Remembers who asks, and is out of order."""

    def do_GET(self):
        self.server.seen.add(self.headers.get("Authorization"))
        self.send_error(503)

    do_POST = do_GET

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.seen = set()
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


EXPECTED = "Basic " + base64.b64encode(b"me:s3cret").decode()


def secrets_below(folder):
    return [file for file in folder.rglob("*") if file.is_file() and b"s3cret" in file.read_bytes()]


def test_a_password_reaches_the_server_and_nothing_else(tmp_path, server, caplog, capfd, environment):
    logger = MLflowTracking(
        run_dir=tmp_path / "run", run_name="run", experiment_name="x",
        tracking_uri=f"http://me:s3cret@127.0.0.1:{server.server_port}",
    )  # fmt: skip
    logger.log_metrics({"a": 1.0}, step=0)
    logger.finalize("success")
    assert server.seen == {EXPECTED}
    for shown in (f"http://me:s3cret@127.0.0.1:{server.server_port}", logger.tracking_uri):  # then by the environment
        server.seen.clear()
        assert main([str(tmp_path / "run"), "--tracking-uri", shown]) == 1
        assert server.seen == {EXPECTED}
    assert "s3cret" not in logger.how_to_open + caplog.text + "".join(capfd.readouterr())
    assert json.loads((tmp_path / "run/mlflow/target.json").read_text())["tracking_uri"].startswith("http://127.")
    assert secrets_below(tmp_path) == []


def test_a_reward_process_does_not_inherit_it(tmp_path):
    code = (
        "import os, sys\n"
        f"for name in {VARIABLES!r}: os.environ[name] = 's3cret'\n"
        "from ada_lightning.rewards.worker import Isolation, isolate\n"
        "isolate(Isolation(os.getppid(), None, sys.argv[1]))\n"
        "print([value for value in os.environ.values() if value == 's3cret'], 'omegaconf' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], cwd=ROOT, check=True)
    assert (tmp_path / "out").read_text() == "[] False\n"
