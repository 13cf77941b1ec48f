"""Send what native code and third-party loggers print to a file instead of the terminal."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path


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
