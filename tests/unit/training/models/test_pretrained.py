"""Local folders for real, and the hub against a small server that speaks as much of its protocol as is asked."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ada_lightning.training.models.pretrained import Pretrained
from ada_lightning.training.models.tiny import TinyLlama

COMMIT = "a" * 40


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    return TinyLlama(cache_dir=tmp_path_factory.mktemp("cache")).prepare()


class FakeHub(http.server.BaseHTTPRequestHandler):
    """``org/tiny`` is there, ``org/gated`` and ``org/slow`` are what they say, and nothing else exists."""

    folder: Path
    requests: list[str]

    def do_GET(self):
        FakeHub.requests.append(self.path)
        path = self.path.partition("?")[0]
        if "/org/slow" in path:
            time.sleep(2)
        if "/org/gated" in path:
            self.answer(403, {}, {"X-Error-Code": "GatedRepo"})
        elif "/org/tiny" not in path:
            self.answer(404, {}, {"X-Error-Code": "RepoNotFound"})
        elif "/revision/" in path and not path.endswith(("/main", COMMIT)):
            self.answer(404, {}, {"X-Error-Code": "RevisionNotFound"})
        elif "/tree/" in path:
            self.answer(200, [self.entry(file) for file in sorted(self.folder.iterdir())])
        elif "/resolve/" in path:
            self.send(path.rpartition("/")[2])
        else:
            self.answer(200, {"id": "org/tiny", "sha": COMMIT, "siblings": []})

    def do_HEAD(self):
        self.do_GET()

    def entry(self, file):
        return {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": self.etag(file)}

    @staticmethod
    def etag(file):
        return hashlib.sha1(file.read_bytes()).hexdigest()

    def send(self, name):
        file = self.folder / name
        if file.exists():
            self.answer(200, file.read_bytes(), {"X-Repo-Commit": COMMIT, "ETag": f'"{self.etag(file)}"'})
        else:
            self.answer(404, {}, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})

    def answer(self, status, body, headers=()):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tiny_folder, tmp_path):
    """Run Python statements in a process that takes the fake server for the hub; its stdout and stderr come back."""
    FakeHub.folder, FakeHub.requests = tiny_folder, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN": "",
    }

    def run(code, **variables):
        result = subprocess.run(
            [sys.executable, "-c", "from ada_lightning.training.models import pretrained\n" + code],
            env={**os.environ, "NO_PROXY": "127.0.0.1", **settings, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return result.stdout, result.stderr.strip().rpartition("\n")[2]

    yield run
    server.shutdown()
    server.server_close()


CHECK = "pretrained.Pretrained(path={path!r}).check()"
PREPARE = "print(pretrained.Pretrained(path={path!r}).prepare())"


def test_local_folder_is_used_as_it_is_and_found_below_home_and_from_here(tiny_folder, monkeypatch):
    Pretrained(path=str(tiny_folder)).check()
    monkeypatch.setenv("HOME", str(tiny_folder.parent))
    monkeypatch.chdir(tiny_folder.parent)
    for path in (str(tiny_folder), f"~/{tiny_folder.name}", tiny_folder.name):
        assert Pretrained(path=path).prepare() == tiny_folder


@pytest.mark.parametrize("path", ["/no/such/folder", "./nowhere", "~/nowhere", "runs/mine/model"])
def test_folder_that_is_not_there_is_never_looked_for_on_the_hub(path):
    with pytest.raises(ValueError, match=rf"model.path={path} does not exist; .*model=smollm2_135m"):
        Pretrained(path=path).check()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": ""}, "model.path must be a hub id or a local folder; got ''"),
        ({"path": "./x", "revision": "v2"}, r"model.revision must be left out for the local folder \./x; got v2"),
        ({"path": "two words"}, "model.path=two words is neither a folder nor a hub id"),  # and no question is asked
    ],
)
def test_names_that_cannot_be_meant_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Pretrained(**settings).check()


def test_check_downloads_the_small_files_only(hub):
    assert hub(CHECK.format(path="org/tiny")) == ("", "")
    assert not any("safetensors" in request or "tokenizer.json" in request for request in FakeHub.requests)
    assert any("config.json" in request for request in FakeHub.requests)


def test_prepared_model_is_the_hubs_and_needs_no_network_again(hub, tiny_folder):
    code = CHECK.format(path="org/tiny") + "\n" + PREPARE.format(path="org/tiny")
    stdout, _ = hub(code)
    folder = Path(stdout.strip())
    assert (folder / "model.safetensors").read_bytes() == (tiny_folder / "model.safetensors").read_bytes()
    FakeHub.requests.clear()
    assert hub(CHECK.format(path="org/tiny")) == ("", "")
    assert FakeHub.requests == []
    assert hub(code, HF_HUB_OFFLINE="1")[0].strip() == str(folder)
    assert FakeHub.requests == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("path='org/typo'", "no such folder, and no such model on the hub; check the spelling"),
        ("path='org/gated'", "its licence must be accepted on its page at the hub; then `hf auth login`"),
        ("path='org/tiny', revision='v9'", "no revision v9 on the hub"),
    ],
)
def test_answer_of_the_hub_is_explained(hub, options, message):
    _, error = hub(f"pretrained.Pretrained({options}).check()")
    assert error.startswith(f"ValueError: model.path={options.split(chr(39))[1]}: {message}")


def test_hub_that_does_not_answer_is_given_up_on(hub):
    """Its answer, after 2 s, is that there is no such repository: another message."""
    code = "pretrained._HUB_TIMEOUT_S = 0.2\ntry:\n    "
    code += CHECK.format(path="org/slow") + "\nexcept ValueError as error:\n    print(error)"
    message, _ = hub(code)
    assert "the hub cannot be reached" in message
    assert "HF_ENDPOINT" in message
    assert "model=smollm2_135m" in message


def test_offline_without_a_copy_says_so(hub):
    _, error = hub(CHECK.format(path="org/tiny"), HF_HUB_OFFLINE="1")
    assert "not in the local cache, and HF_HUB_OFFLINE is set" in error
    assert FakeHub.requests == []
