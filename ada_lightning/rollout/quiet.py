"""Send what native code and third-party loggers print to a file instead of the terminal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def output_to_file(path: Path) -> Iterator[None]:
    """Redirect file descriptors 1 and 2 of this process to ``path`` (appended) while the body runs.

    Python-level redirection would miss what C++ libraries write.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
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
    logger.propagate = False


def quiet_libraries() -> None:
    """Keep tips, progress bars and notices of well-behaved libraries off the terminal; warnings still show."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    for name in ("lightning.pytorch", "lightning.fabric", "httpx", "alembic", "mlflow"):
        logging.getLogger(name).setLevel(logging.WARNING)
