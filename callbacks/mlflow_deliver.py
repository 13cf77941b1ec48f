"""Deliver what MLflow missed of a run: ``python -m ada_lightning.callbacks.mlflow_deliver runs/<run>``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.run.credentials import hidden, take
from ada_lightning.run.run_dir import RunDir

from .mlflow_upload import MlflowUpload


def main(arguments: Sequence[str] | None = None) -> int:
    """Deliver the given run folders.

    Returns:
        0 where nothing waits any more, else 1: the exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m ada_lightning.callbacks.mlflow_deliver", description=__doc__)
    parser.add_argument("run_dir", nargs="+", type=Path, help="folder of a run, for example runs/*")
    parser.add_argument(
        "--tracking-uri", default="", help="where the store is now; default: where it was in the run, which you confirm"
    )
    options = parser.parse_args(arguments)
    results = [deliver(path, tracking_uri=options.tracking_uri) for path in options.run_dir]
    return 0 if all(results) else 1


def deliver(path: Path, *, tracking_uri: str = "") -> bool:
    """Deliver one run and say how it went.

    Args:
        path: folder of the run.
        tracking_uri: where the store is now; empty for where the folder says it was, which a person then confirms
            unless ``MLFLOW_TRACKING_URI`` says the same.

    Returns:
        Whether nothing waits any more.
    """
    upload = MlflowUpload(RunDir(path))
    target = upload.read_target()
    if not target:
        print(f"{path}: nothing to deliver; no run told MLflow anything from here")
        return path.is_dir()
    if not upload.lock():
        print(f"{path}: this run is going on, and delivers by itself")
        return False
    uri = tracking_uri or target["tracking_uri"]
    try:
        if not tracking_uri and not _is_meant(path, hidden(uri)):
            return False
        uri = upload.tracking_uri_override = take(uri)
        note = "; the run had been killed" if upload.close_killed_run() else ""
        waiting = upload.waiting() or "nothing: it has everything"
        failure = upload.send(is_final=True)
        if failure is not None:
            reason = hidden(f"{type(failure).__name__}: {failure}")
            print(f"{path}: {uri} failed: {reason}; waiting: {upload.waiting()}")
            return False
        print(f"{path}: delivered {waiting} to {uri}{note}")
        return True
    finally:
        upload.unlock()


def _is_meant(path: Path, uri: str) -> bool:
    """Whether a person wants the files of a folder at the server that this folder, which may be anybody's, names."""
    if uri == hidden(os.environ.get("MLFLOW_TRACKING_URI", "")):
        return True
    if sys.stdin.isatty():
        return input(f"{path}: deliver its figures and files to {uri}? [y/N] ").strip().lower() in ("y", "yes")
    print(f"{path}: it names {uri} as its store; where that is meant, say so: --tracking-uri {uri}")
    return False


if __name__ == "__main__":
    sys.exit(main())
