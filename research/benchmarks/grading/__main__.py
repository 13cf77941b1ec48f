"""Ask every grader about every pair, print and save what each got wrong."""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from research.benchmarks.grading.corpus import KINDS, Pair, cells, corpus
from research.benchmarks.grading.judges import FOREIGN, JUDGES
from research.benchmarks.report import REWARDS, markdown, save

PACKAGES = (
    "math-verify==0.9.0",
    "latex2sympy2_extended==1.11.0",
    "antlr4-python3-runtime==4.13.2",  # what math-verify gets where no Hydra is installed, which wants 4.9
    "verl==0.9.1",
)
"""Installed without what they need: sympy is here, and verl's graders need nothing."""
JUDGE = "research.benchmarks.grading.judges"
TIME_LIMIT_S = 20.0
"""For one verdict."""
START_LIMIT_S = 120.0
"""For the first line of a grader: libraries are imported."""


@dataclass
class Found:
    """What one grader said."""

    name: str
    version: str = ""
    verdicts: list[bool] = field(default_factory=list)
    """Whether it takes the answer for right, by pair."""
    slowest_s: float = 0.0
    timeouts: int = 0


def main() -> None:
    """Ask all graders that are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", help="put the graders of others into --folder, by pip")
    parser.add_argument("--folder", type=Path, default=Path(".cache/grading"), help="where they stand")
    parser.add_argument("--only", nargs="+", choices=list(JUDGES), default=list(JUDGES), help="graders to ask")
    parser.add_argument("--wrong", action="store_true", help="list the pairs that each grader gets wrong")
    parser.add_argument("--no-save", action="store_true", help="only print")
    arguments = parser.parse_args()
    if arguments.install:
        install(arguments.folder)
    pairs = corpus()
    found, graders = [], []
    for name in arguments.only:
        if name in FOREIGN and not arguments.folder.is_dir():
            graders.append({"name": name, "version": "not installed"})
        else:
            found.append(one := ask(name, pairs, folder=arguments.folder))
            speed = {"slowest_s": round(one.slowest_s, 2), "timeouts": one.timeouts}
            graders.append({"name": name, "version": one.version, **speed})
        print(*graders[-1].values(), flush=True)
    rows = by_kind(pairs, found)
    if arguments.wrong:
        print(*(line for one in found for line in wrong(pairs, one)), sep="\n")
    print(markdown(["equal / unequal", *arguments.only], [cells(row, arguments.only) for row in rows]))
    if not arguments.no_save:
        print(save("grading", folder=REWARDS, graders=graders, rows=rows))


def install(folder: Path) -> None:
    """Put the graders of others into a folder of their own, which comes before what is installed."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, *PACKAGES], check=True)


def ask(name: str, pairs: Sequence[Pair], *, folder: Path, time_limit_s: float = TIME_LIMIT_S) -> Found:
    """Ask one grader about all pairs, in a process that is replaced where a verdict takes too long."""
    found = Found(name)
    while len(found.verdicts) < len(pairs):
        with _Process(name, folder) as process:
            found.version = str(process.next_line(START_LIMIT_S))
            for pair in pairs[len(found.verdicts) :]:
                try:
                    verdict, seconds = process.ask(pair, time_limit_s)
                except queue.Empty:
                    found.verdicts.append(False)
                    found.timeouts += 1
                    found.slowest_s = max(found.slowest_s, time_limit_s)
                    break
                found.verdicts.append(verdict)
                found.slowest_s = max(found.slowest_s, seconds)
    return found


class _Process:
    """A grader's process, whose lines a thread reads, so that waiting for one has an end."""

    def __init__(self, name: str, folder: Path) -> None:
        first = [str(folder)] if name in FOREIGN else []
        path = os.pathsep.join([*first, str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", JUDGE, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def ask(self, pair: Pair, time_limit_s: float) -> Any:
        """Return the verdict and its seconds; raise ``queue.Empty`` where there is none in time."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(pair)) + "\n")
        self._process.stdin.flush()
        return self.next_line(time_limit_s)

    def next_line(self, limit_s: float) -> Any:
        """Return what the grader says next."""
        line = self._lines.get(timeout=limit_s)
        if not line:
            raise RuntimeError(f"the grader {self._name} ended; by hand: python -m {JUDGE} '{self._name}'")
        return json.loads(line)


def by_kind(pairs: Sequence[Pair], found: Iterable[Found]) -> list[dict[str, Any]]:
    """Return a row for each kind: how many pairs, and by grader what it refused and accepted wrongly."""
    rows = []
    for kind in (*dict.fromkeys(pair.kind for pair in pairs), "all"):
        at = [index for index, pair in enumerate(pairs) if kind in (pair.kind, "all")]
        equal = [index for index in at if pairs[index].equal]
        unequal = [index for index in at if not pairs[index].equal]
        graders = {
            one.name: {
                "refused": sum(not one.verdicts[index] for index in equal),
                "accepted": sum(one.verdicts[index] for index in unequal),
            }
            for one in found
        }
        rows.append({"kind": kind, "equal": len(equal), "unequal": len(unequal), "graders": graders})
    return rows


def wrong(pairs: Sequence[Pair], found: Found) -> Iterator[str]:
    """Yield a line for each pair that a grader gets wrong."""
    for pair, verdict in zip(pairs, found.verdicts, strict=True):
        if verdict is not pair.equal:
            said = "refuses" if pair.equal else "accepts"
            yield f"{found.name} {said} for {pair.gold!r}: {pair.answer or pair.response!r} ({KINDS[pair.kind]})"


if __name__ == "__main__":
    main()
