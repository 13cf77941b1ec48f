"""Checkpoints of a run: whole, checked, found again, and deleted by rule. Imports no torch."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

MANIFEST = "manifest.json"
"""Name in a checkpoint's folder."""
_BLOCK_BYTES = 2**22


def write_manifest(folder: Path, **facts: Any) -> Path:
    """List every file below ``folder`` with its size and checksum, and put all of it on the disk.

    The checksum is xxh3_128: against disks and transfers, not against people. It reads at memory speed what has just
    been written.

    The folder is complete except for this file; ``facts`` accompany the list, as primitives.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[str(path.relative_to(folder))] = {"bytes": path.stat().st_size, "xxh3_128": _checksum(path)}
            _flush(path)
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({**facts, "files": files}, indent=2) + "\n", encoding="utf-8")
    _flush(manifest)
    for path in sorted(path for path in (folder, *folder.rglob("*")) if path.is_dir()):
        _flush(path)
    return manifest


def damage(folder: Path, *, below: str = "") -> str:
    """Say what is wrong with a checkpoint; an empty text where every file is as it was written.

    One without a manifest is damaged. Only files in the folder ``below`` are read, where one is named.
    """
    try:
        files = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        read = {name: expected for name, expected in files.items() if Path(name).is_relative_to(below)}
        if not read:
            return f"{MANIFEST} lists no file{f' of {below}' if below else ''}"
        for name, expected in read.items():
            if wrong := _wrong_with(folder / name, expected):
                return f"{name} {wrong}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{MANIFEST} or a file cannot be read ({type(error).__name__}: {error})"
    return ""


def _wrong_with(path: Path, expected: dict[str, Any]) -> str:
    if not path.is_file():
        return "is missing"
    if (size := path.stat().st_size) != expected["bytes"]:
        return f"has {size} bytes instead of {expected['bytes']}"
    return "" if _checksum(path) == expected["xxh3_128"] else f"has {size} bytes, but not those that were written"


def _checksum(path: Path) -> str:
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _flush(path: Path) -> None:
    """Put a file, or a folder's list of names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Retention:
    """The newest few, and one in every so many steps for good.

    Args:
        keep_last: newest checkpoints that stay.
        keep_every: rollout steps; checkpoints at multiples of it stay for good. 0 keeps none of them.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> sorted(Retention(keep_last=2, keep_every=20).kept([10, 20, 30, 40, 50]))
        [20, 40, 50]
    """

    keep_last: int
    keep_every: int

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.keep_last < 1 or self.keep_every < 0:
            raise ValueError(
                "callbacks.checkpoint needs keep_last >= 1 and keep_every >= 0; "
                f"got {self.keep_last}, {self.keep_every}"
            )

    def kept(self, versions: Collection[int], *, updates_per_step: int = 1) -> set[int]:
        """Return those of the policy versions whose checkpoints stay; a rollout step makes ``updates_per_step``."""
        newest = set(sorted(versions)[-self.keep_last :])
        period = self.keep_every * updates_per_step
        return newest | {version for version in versions if period and version % period == 0}


_COMPLETE = re.compile(r"step_(\d+)(?:\.replaced)?")
_REPLACED = ".replaced"
"""Ends the name of a checkpoint whose version is written again: it counts until the new one has its name."""


class CheckpointStore:
    """Checkpoints under ``step_<policy version>``, and ``last``, a link to one of them.

    A checkpoint is written under a name that ends in ``.tmp`` and renamed when it is whole, so a kill at any moment
    leaves it complete or unnamed. A damaged one, as a disk or a copy leaves, is found by its manifest. The folder,
    ``checkpoints`` in the run's, need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def versions(self) -> dict[int, Path]:
        """Return every complete checkpoint by its policy version, in ascending order."""
        paths = sorted(self.folder.glob("step_*"), reverse=True)  # of two of a version the new one comes last
        found = {int(match[1]): path for path in paths if (match := _COMPLETE.fullmatch(path.name))}
        return dict(sorted(found.items()))

    def pointed_at(self) -> Path | None:
        """Return what ``last`` points to, if it is a link to one of the checkpoints here.

        A link out of the folder is not followed: a damaged checkpoint is renamed, and anything may be there. Where a
        copy of the run made a folder of the link, it is as old as the copy and says nothing.
        """
        last = self.folder / "last"
        target = last.resolve()
        return target if last.is_symlink() and target.exists() and target.parent == self.folder.resolve() else None

    def candidates(self) -> list[Path]:
        """Return the checkpoints to continue from, the best first: ``last``, then by descending version."""
        newest_first = list(reversed(self.versions().values()))
        pointed_at = self.pointed_at()
        if pointed_at is None:
            return newest_first
        return [pointed_at, *(path for path in newest_first if path.resolve() != pointed_at)]

    def newest_good(self) -> tuple[Path | None, dict[Path, str]]:
        """Read checkpoints, the best first, until one is as it was written.

        Returns:
            That one, None where there is none, and what is wrong with those before it.
        """
        damaged: dict[Path, str] = {}
        for path in self.candidates():
            wrong = damage(path)
            if not wrong:
                return path, damaged
            damaged[path] = wrong
        return None, damaged

    def set_aside(self, path: Path) -> Path:
        """Rename a damaged checkpoint, so that nobody takes it for a good one; it stays for whoever wants to look."""
        target = path.with_name(f"damaged_{path.name}")
        shutil.rmtree(target, ignore_errors=True)
        return path.rename(target)

    def unfinished(self, version: int) -> Path:
        """Return an empty folder to write a checkpoint of this version in."""
        for leftover in self.folder.glob("step_*.tmp"):  # of a kill while one was written or deleted
            shutil.rmtree(leftover, ignore_errors=True)
        folder = self.folder / f"step_{version:06d}.tmp"
        folder.mkdir(parents=True)
        return folder

    def finish(self, unfinished: Path) -> Path:
        """Give a complete folder its name and let ``last`` point to it."""
        target = unfinished.with_suffix("")
        if target.exists():  # made by a lost attempt: one of the two counts at every moment
            shutil.rmtree(_replaced(target), ignore_errors=True)
            target.rename(_replaced(target))
        unfinished.rename(target)
        shutil.rmtree(_replaced(target), ignore_errors=True)
        link = self.folder / "last.tmp"
        link.unlink(missing_ok=True)
        link.symlink_to(target.name)
        last = self.folder / "last"
        if last.is_dir() and not last.is_symlink():  # a copy of the run that followed its links
            last.rename(self.folder / f"step_{last.name}.old.tmp")  # pruned with the others of that name
        link.replace(last)
        return target

    def prune(self, retention: Retention, *, newest: int, updates_per_step: int) -> None:
        """Delete what the rule does not keep, and what a lost attempt wrote beyond ``newest``."""
        versions = self.versions()
        past = [version for version in versions if version <= newest]
        kept = retention.kept(past, updates_per_step=updates_per_step)
        for version, path in versions.items():
            if version not in kept:
                doomed = path.rename(path.with_name(f"{path.name}.old.tmp"))  # never a part of one under its name
                shutil.rmtree(doomed, ignore_errors=True)
        superfluous = set(self.folder.glob(f"step_*{_REPLACED}")) - set(versions.values())
        for leftover in (*self.folder.glob("step_*.old.tmp"), *superfluous):
            shutil.rmtree(leftover, ignore_errors=True)


def _replaced(path: Path) -> Path:
    return path.with_name(path.name + _REPLACED)


_STATE = "trainer.ckpt"
"""Name in a checkpoint's folder."""


def read_trainer_state(checkpoint: Path) -> dict[str, Any]:
    """Return what the trainer left in a checkpoint. Tensors have their shapes and no values (torch's meta device).

    Raises:
        ValueError: the file is missing, cut off, or nothing that torch wrote.
    """
    import torch

    file = checkpoint / _STATE
    try:
        state = torch.load(file, map_location="meta", mmap=True, weights_only=True)
    except Exception as error:  # torch, zipfile and pickle each have errors of their own for it
        reason = str(error).partition("\n")[0].partition(". ")[0]
        raise ValueError(f"{file} cannot be loaded ({type(error).__name__}: {reason})") from error
    if not isinstance(state, dict):
        raise ValueError(f"{file} cannot be loaded: it holds no state of a trainer")
    return state
