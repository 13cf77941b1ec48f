"""Programs of this project in processes that are forked from one which has imported what they need.

A program with an engine spends up to twenty seconds on imports. Here it is run by its file, as ``python program.py``
runs it, in a process and a session of its own, which ends as that one would; only the imports are not its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from research.benchmarks.faults.sessions import exit_code, warm_up
from tests.composed_once import compose_once
from tests.heap import settle_imports

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    """A program that has ended."""

    returncode: int
    """Negative: killed by that signal."""
    stdout: str
    stderr: str


class Warm:
    """Starts programs and waits for them.

    Args:
        folder: for what they print.
    """

    def __init__(self, folder):
        self._folder = folder
        self._num_started = 0
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.warm"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._server.stdout.readline() == "ready\n"

    def start(self, program, *arguments, cwd=ROOT, environment=None):
        """Start a program of the project's folder; returns its process id.

        ``environment`` names the variables that differ from those of the tests; None leaves one out.
        """
        self._num_started += 1
        files = [str(self._folder / f"{self._num_started}.{name}") for name in ("out", "err")]
        for file in files:  # a program that is killed at once has printed nothing
            Path(file).touch()
        pid = self._ask(
            {
                "program": program,
                "arguments": [str(argument) for argument in arguments],
                "cwd": str(cwd),
                "environment": environment or {},
                "files": files,
            }
        )
        (self._folder / f"{pid}.files").write_text("\n".join(files))
        return pid

    def wait(self, pid):
        """Wait for a program that was started."""
        code = self._ask({"wait": pid})
        return Done(code, *self.printed(pid))

    def printed(self, pid):
        """What a program has printed so far, to standard output and error."""
        files = (self._folder / f"{pid}.files").read_text().splitlines()
        return [Path(file).read_text() for file in files]

    def run(self, program, *arguments, **options):
        """Start a program and wait for it."""
        return self.wait(self.start(program, *arguments, **options))

    def close(self):
        self._server.stdin.close()
        self._server.wait(60)

    def _ask(self, request):
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


def serve():
    """Read a request per line, answer with a number: a process id, or the exit code of the one waited for."""
    warm_up()
    _import_the_rest()
    _compose()
    settle_imports()
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            print(exit_code(request["wait"]), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            return become(request)  # and end as any program
        print(pid, flush=True)
    return None


def _import_the_rest():
    """A thousand modules that an engine, the tiny model and the default task import when they are made."""
    import reasoning_gym
    import transformers.models.llama.modeling_llama
    import vllm.model_executor.models.llama

    _ = reasoning_gym.create_dataset, transformers.models.llama.modeling_llama.LlamaForCausalLM
    with contextlib.suppress(ImportError):  # vLLM for GPUs has another worker
        import vllm.v1.worker.cpu_worker  # noqa: F401


def _compose():
    """A start composes its configuration four times; what is done here is done for all of them."""
    from hydra import compose, initialize_config_dir

    compose_once()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        for program in ("train", "evaluate", "prepare"):
            compose(program, ["run_name=warm"])


def become(request):
    """Be the program: its session, files, folder, environment and arguments."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in enumerate(request["files"], start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
    os.chdir(request["cwd"])
    for name, value in request["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    sys.path.extend(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))  # as a start reads it
    sys.argv = [str(ROOT / request["program"]), *request["arguments"]]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    serve()
