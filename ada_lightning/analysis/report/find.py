"""Which folders a person means who names runs, sweeps or patterns on the command line."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ada_lightning.run.run_dir import RunDir

NEEDED = ("config.yaml", "metrics.csv")
"""What makes a folder a run: its settings and its figures."""


def find_runs(arguments: Sequence[str], *, runs_dir: Path) -> tuple[list[RunDir], list[str]]:
    """Find the run folders that the arguments name.

    Args:
        arguments: run folders, folders that hold runs at any depth (sweeps), glob patterns, or names of runs in
            ``runs_dir``.
        runs_dir: where runs are that are given by name.

    Returns:
        The run folders without repetition, in the order of the arguments, and one message for each thing that is left
        out: a file or folder that has no run, or that looks like the rest of one. A shell that replaces ``runs/*`` by
        all that is there names such things too, like the folder of ``multirun.yaml`` that a sweep leaves.

    Raises:
        ValueError: an argument names nothing that exists, or none of them a run; the text says of each what is missing.
    """
    runs: dict[Path, RunDir] = {}
    left_out: list[str] = []
    errors: list[str] = []
    for argument in arguments:
        folders = _folders(argument, runs_dir)
        for folder in folders:
            try:
                found, incomplete = _runs_at(folder)
            except ValueError as error:
                left_out.append(str(error))
                continue
            runs |= {run.path.resolve(): run for run in found}
            left_out += incomplete
        if not folders and Path(argument).is_file():
            left_out.append(f"{argument} is a file")
        elif not folders:
            errors.append(f"{argument} is no folder, no pattern that matches one, and no run in {runs_dir}")
    if errors or not runs:
        raise ValueError("\n".join(errors + ([] if runs else left_out)))
    return list(runs.values()), left_out


def _folders(argument: str, runs_dir: Path) -> list[Path]:
    for candidate in (Path(argument), runs_dir / argument):
        if candidate.is_dir():
            return [candidate]
    matches = sorted(glob.glob(argument)) or sorted(glob.glob(str(runs_dir / argument)))
    return [Path(match) for match in matches if Path(match).is_dir()]


def _runs_at(folder: Path) -> tuple[list[RunDir], list[str]]:
    missing = _missing(folder)
    if not missing:
        return [RunDir(folder)], []
    below = list(_below(folder))
    runs = [RunDir(path) for path in below if not _missing(path)]
    if not runs:
        raise ValueError(
            f"{folder} is no run folder: it has no {' and no '.join(missing)}; nor is there a run below it"
            + "".join(f"; {path} has no {' and no '.join(_missing(path))}" for path in below)
        )
    return runs, [f"{path}: it has no {' and no '.join(_missing(path))}" for path in below if _missing(path)]


def _below(folder: Path) -> Iterator[Path]:
    """Folders below that are runs or have some of a run's files; nothing is looked for inside them."""
    for path, names, files in os.walk(folder):
        names.sort()
        if Path(path) != folder and {*NEEDED, "summary.json"} & set(files):
            names.clear()
            yield Path(path)


def _missing(folder: Path) -> list[str]:
    return [name for name in NEEDED if not (folder / name).is_file()]
