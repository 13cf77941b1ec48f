"""Time what a newcomer waits for: ``python -m research.benchmarks.first_figure``.

Makes an empty environment and an empty folder, and runs the commands of ``docs/install.md`` in them, one after another,
as they stand there but for two rollout steps, and this checkout's last commit for the repository.
Prints the seconds of each and, counted from the start of ``pip install``, those until the first held-out figure.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "install.md"
FIRST_FIGURE = "held-out after 0 steps"
"""How the line begins that the first evaluation prints."""


def main() -> None:
    """Run all commands of the page, or as many as work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="a new folder for environment and runs; a temporary one unless given")
    parser.add_argument("--steps", type=int, default=2, help="rollout steps that `ada train` makes")
    arguments = parser.parse_args()
    if arguments.keep:
        arguments.keep.mkdir(parents=True)
        _run_all(arguments.keep.resolve(), arguments.steps)
    else:
        with tempfile.TemporaryDirectory() as folder:
            _run_all(Path(folder), arguments.steps)


def commands(page: str, num_steps: int) -> Iterator[str]:
    """Return what the page tells to run, without comments, a command a line."""
    for block in re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            command = re.sub(r"\s+#.*", "", line)
            command = command.replace("<this repository>", f"{ROOT} ada_lightning")
            yield command + (f" num_steps={num_steps}" if command.startswith("ada train ") else "")


def _run_all(folder: Path, num_steps: int) -> None:
    venv.create(folder / "venv", with_pip=True)
    (folder / "empty").mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PATH"] = f"{folder / 'venv' / 'bin'}:{environment['PATH']}"
    installing_since = 0.0
    for command in commands(PAGE.read_text(encoding="utf-8"), num_steps):
        if command.startswith("pip install "):
            installing_since = time.monotonic()
        print(f"$ {command}", flush=True)
        print(f"  {_timed(command, folder / 'empty', environment, installing_since):.0f} s", flush=True)


def _timed(command: str, folder: Path, environment: Mapping[str, str], installing_since: float) -> float:
    """Run one command and show what it says; stop where it fails."""
    started = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        print(f"    {line}", end="", flush=True)
        if line.startswith(FIRST_FIGURE):
            passed_s = time.monotonic() - installing_since
            print(f"  the first held-out figure, {passed_s:.0f} s after `pip install` began", flush=True)
    if status := process.wait():
        sys.exit(f"`{command}` ended with status {status}")
    return time.monotonic() - started


if __name__ == "__main__":
    main()
