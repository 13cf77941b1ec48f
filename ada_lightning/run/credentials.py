"""Keeps passwords of a tracking store out of everything written or shown; the connecting library still gets them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from omegaconf import DictConfig

STORE = "ADA_LIGHTNING_TRACKING_STORE"
"""Variable with the whole address of a database, whose password MLflow takes from nowhere else."""
VARIABLES = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", STORE)
"""What a process that has no business with the store need not inherit."""
_GIVEN = re.compile(r"(tracking_uri['\"]?\s*[=:]\s*['\"]?)([\w+.-]+://[^\s'\"}]+)")


def hidden(text: str) -> str:
    """Leave the user and the password out of every address in a text.

    Example:
        >>> hidden("cannot reach http://me:secret@host:5000/a, nor mysql://host/db?password=secret&ssl=1")
        'cannot reach http://host:5000/a, nor mysql://host/db?password=&ssl=1'
    """
    text = re.sub(r"(\w://)[^/\s]*@", r"\1", text)
    return re.sub(r"([?&](?:password|passwd|pwd|token)=)[^&\s]*", r"\1", text)


def take(uri: str) -> str:
    """Put the user and the password of an address where :func:`whole` and MLflow find them: in the environment.

    Returns:
        The address without them.
    """
    shown = hidden(uri)
    if shown != uri and uri.startswith("http"):
        parts = urlsplit(uri)
        os.environ["MLFLOW_TRACKING_USERNAME"] = unquote(parts.username or "")
        os.environ["MLFLOW_TRACKING_PASSWORD"] = unquote(parts.password or "")
    elif shown != uri:
        os.environ[STORE] = uri
    return shown


def take_from_start(argv: Sequence[str]) -> list[str]:
    """Do so with a command line, which is kept and printed, and with the variable that a configuration reads.

    Returns:
        The command line without passwords of tracking stores.
    """
    if given := os.environ.get("MLFLOW_TRACKING_URI"):
        os.environ["MLFLOW_TRACKING_URI"] = take(given)
    return [_GIVEN.sub(lambda match: match[1] + take(match[2]), argument) for argument in argv]


def take_from_config(cfg: DictConfig) -> None:
    """Do so with addresses that a file of the configuration holds."""
    from omegaconf import OmegaConf  # reward workers, which import this file, do without

    for key in ("mlflow.tracking_uri", "logger.mlflow.tracking_uri"):
        if isinstance(uri := OmegaConf.select(cfg, key), str) and (shown := take(uri)) != uri:
            OmegaConf.update(cfg, key, shown)


def whole(shown: str) -> str:
    """Return the address to connect to: that of a database with its password, where the environment has it."""
    known = (os.environ.get(name, "") for name in (STORE, "MLFLOW_TRACKING_URI"))
    return next((uri for uri in known if uri and hidden(uri) == shown), shown)
