"""The output on the terminal: library output goes to a file; seconds and commands are spelt for people."""

from __future__ import annotations

import logging
import os
import select
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import TextIO

_OWN = ("ada_lightning", "__main__")
"""Packages that call ``warnings.warn``; the place that a warning names is often a caller's, in Lightning."""

UNREAD = 141
"""Exit code of a program whose output nobody reads any more: 128 and the number of SIGPIPE."""

_said: set[str] = set()
_said_before: set[str] = set()


def begin_job() -> None:
    """Take what was said so far for what earlier jobs of this process have said."""
    _said_before.update(_said)


def is_new(text: str) -> bool:
    """Whether no earlier job of this process has said this; the jobs after this one will find that it has."""
    _said.add(text)
    return text not in _said_before


@contextmanager
def output_to_file(path: Path) -> Iterator[None]:
    """Redirect standard output and error of this process to ``path`` (appended) while the body runs.

    The file descriptors, because C++ libraries write to them; ``sys.stdout`` and ``sys.stderr`` as well, because they
    need not lead there (notebooks, test runners).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        with path.open("a") as stream, redirect_stdout(stream), redirect_stderr(stream):
            yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for descriptor in (*saved, log):
            os.close(descriptor)


def logger_to_file(name: str, path: Path) -> None:
    """Replace the handlers of one logger by a file handler."""
    logger = logging.getLogger(name)
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for old in list(logger.handlers):
        logger.removeHandler(old)
        if isinstance(old, logging.FileHandler):
            old.close()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def quiet_libraries() -> None:
    """Keep tips, progress bars and notices of well-behaved libraries off the terminal; warnings still show."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    # Lightning 2.6 on torch 2.13; nothing a user could do about it.
    warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
    for name in ("lightning.pytorch", "lightning.fabric", "httpx", "alembic", "mlflow"):
        logging.getLogger(name).setLevel(logging.WARNING)


def plain_warnings() -> None:
    """Show this project's own warnings as a sentence, without the file and line that only a programmer wants.

    Of a sweep, no warning that an earlier job has shown.
    """
    show = warnings.showwarning

    def show_plainly(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not is_new(str(message)):
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") == "warnings":
            frame = frame.f_back
        if frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _OWN:
            print(f"warning: {message}", file=file or sys.stderr, flush=True)
        else:
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = show_plainly


def duration(seconds: float) -> str:
    """Spell seconds for a person.

    Example:
        >>> [duration(s) for s in (7.2, 250, 7300)]
        ['7s', '4m10s', '2h01m']
    """
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minute:02d}m"
    return f"{minute}m{second:02d}s" if minute else f"{second}s"


@contextmanager
def until_nobody_reads(text: str = "") -> Iterator[None]:
    """End the process quietly where whoever read its output has gone, as in ``ada describe | head``.

    Args:
        text: for standard error, where something more than output ends with it.

    Raises:
        SystemExit: with ``UNREAD``, what a shell sees of a program that the signal for this has ended.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes once more at its end
        if text:
            print(text, file=sys.stderr, flush=True)
        sys.exit(UNREAD)


def _is_unread() -> bool:
    """Whether standard output is a pipe whose other end is closed."""
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def start_of(program: str) -> list[str]:
    """Words that start a program of ours, in the way that this one was started: ``ada train``, ``python train.py``."""
    module = getattr(sys.modules["__main__"], "__spec__", None)  # none where a file of a checkout was started
    is_installed = module is not None and module.name.startswith("ada_lightning.")
    return ["ada", program] if is_installed else ["python", f"{program}.py"]
