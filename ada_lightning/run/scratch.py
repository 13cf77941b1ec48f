"""A temporary folder for this process only, so that leftovers of a killed one can be recognised."""

from __future__ import annotations

import fcntl
import getpass
import os
import re
import shutil
import tempfile
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path

_NAME = re.compile(r"ada_lightning-(\d+)-\w+")
_LONGEST = 72
"""Characters of the folder's path: sockets lie in it, whose own paths may have 107."""


def use_own_scratch() -> None:
    """Have this process and all that it starts put temporary files into one folder, which goes with the process.

    ``multiprocessing`` (``pymp-*``) and vLLM (``vllm_dist_*``) leave theirs when they are killed. Folders that dead
    processes of this user left are deleted here. What is to outlive a process stays where it is: compiled kernels,
    Ray's sessions. Does nothing where no temporary folder can be made.
    """
    with suppress(OSError):
        above = Path(tempfile.gettempdir())
        _sweep(above)
        folder = Path(tempfile.mkdtemp(prefix=f"ada_lightning-{os.getpid()}-", dir=above))
        if len(str(folder)) > _LONGEST:
            folder.rmdir()
            return
        _lock(folder)
        # After multiprocessing removed its own folder inside, whose finalizer has -100 and complains if it is gone.
        Finalize(None, shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, exitpriority=-200)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(above / f"torchinductor_{_user()}"))
        os.environ.setdefault("RAY_TMPDIR", str(above))
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def _sweep(above: Path) -> None:
    """Delete folders of dead processes. The lock tells of one in another container, whose numbers are not ours."""
    for folder in above.glob("ada_lightning-*"):
        match = _NAME.fullmatch(folder.name)
        with suppress(OSError):  # somebody else deleted it, or has the lock
            if match is None or folder.is_symlink() or folder.stat().st_uid != os.getuid() or is_alive(int(match[1])):
                continue
            lock = _lock(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def is_alive(pid: int) -> bool:
    """Whether there is a process of this number, whoever's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _lock(folder: Path) -> int:
    """Lock a folder until the descriptor that this returns is closed, at the latest with the process.

    Raises:
        OSError: another process has the lock.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _user() -> str:
    """As in the name of torch's folder of compiled kernels."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"uid_{os.getuid()}"
