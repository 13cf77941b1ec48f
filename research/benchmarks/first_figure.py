"""Time what a newcomer waits for: ``python -m research.benchmarks.first_figure``.

Builds the wheel, makes an empty environment and an empty folder, and runs the commands of ``docs/install.md`` in them,
one after another, as they stand there but for ``num_steps=2``. Prints the seconds of each and, counted from the start
of ``pip install``, those until the first held-out figure. Needs the network, or pip's cache, and 6 GB of disk.
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
from collections.abc import Callable, Iterator, Mapping
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
    """Return what the page tells to run outside of a checkout, without comments, one command each."""
    for block in re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            command = re.sub(r"\s+#.*", "", line).replace("<run_name>", "ada_seq_balance-*")
            yield f"{command} num_steps={num_steps}" if command.startswith("ada train ") else command


def _run_all(folder: Path, num_steps: int) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheel")]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    venv.create(folder / "venv", with_pip=True)
    (folder / "empty").mkdir()
    names = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    links = f"{folder / 'wheel'} {names.get('PIP_FIND_LINKS', '')}".strip()
    environment = names | {"PATH": f"{folder / 'venv' / 'bin'}:{names['PATH']}", "PIP_FIND_LINKS": links}
    started = time.monotonic()
    for command in commands(PAGE.read_text(encoding="utf-8"), num_steps):
        print(f"$ {command}", flush=True)
        seconds = _timed(command, folder / "empty", environment, lambda: time.monotonic() - started)
        print(f"  {seconds:.0f} s", flush=True)


def _timed(command: str, folder: Path, environment: Mapping[str, str], passed: Callable[[], float]) -> float:
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
            print(f"  the first held-out figure, {passed():.0f} s after `pip install` began", flush=True)
    if status := process.wait():
        sys.exit(f"`{command}` ended with status {status}")
    return time.monotonic() - started


if __name__ == "__main__":
    main()
