"""The cache of this machine: folders that are made once, whoever asks first, and models among them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CACHE_VARIABLE = "ADA_LIGHTNING_CACHE"


def cache_root(cache_dir: str | Path | None = None) -> Path:
    """Return the cache's folder: ``cache_dir``, else what ``ADA_LIGHTNING_CACHE`` names, else one at home."""
    root = cache_dir or os.environ.get(CACHE_VARIABLE) or "~/.cache/ada_lightning"
    return Path(root).expanduser().absolute()


class MadeModel:
    """A model that is made on this machine, in a folder of the cache.

    Args:
        name: of the folder, other for every content.
        cache_dir: as of :func:`cache_root`.
    """

    def __init__(self, name: str, cache_dir: str | Path | None) -> None:
        self.folder = cache_root(cache_dir) / "models" / name

    def check(self) -> None:
        """Check that the model is made already, or can be.

        Raises:
            ValueError: it is not there, and the nearest folder above it cannot be written.
        """
        if self.folder.is_dir():
            return
        above = next(parent for parent in self.folder.parents if parent.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise ValueError(
                f"the model cache {self.folder.parent} cannot be written (because of {above}); "
                f"choose another with the environment variable {CACHE_VARIABLE} or with model.cache_dir"
            )

    def prepare(self) -> Path:
        """Return the folder of the checkpoint, made on the first call on this machine."""
        return prepare_once(self.folder, self.build)

    def build(self, folder: Path) -> None:
        """Write the checkpoint into an empty folder."""
        raise NotImplementedError


def prepare_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Return a complete folder, building it unless an earlier call, here or in another process, did.

    It is built under another name and renamed at the end, so that it is either complete or absent. A lock makes the
    second process wait for the first instead of doing the work again.

    Args:
        folder: where the result belongs. Delete it to have it built again.
        build: fills the empty folder that it is given. What it raises is passed on, and leaves nothing behind.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f"{folder.name}.partial")
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        with suppress(OSError):  # no locks here, as on some network file systems: then nobody waits for another
            fcntl.flock(lock, fcntl.LOCK_EX)  # freed with the file, also when this process is killed
        if folder.is_dir():
            return folder
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed: the lock was free
        partial.mkdir()
        try:
            build(partial)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder
