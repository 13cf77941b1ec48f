"""The folder of a run's checkpoints: which is the newest good one, and which may go."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ada_lightning.run.checkpoints.manifest import damage
from ada_lightning.run.checkpoints.retention import Retention

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
