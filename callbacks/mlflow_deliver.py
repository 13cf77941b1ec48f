"""Deliver what MLflow missed of a run: ``python -m ada_lightning.callbacks.mlflow_deliver runs/<run>``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.run.credentials import hidden, take
from ada_lightning.run.run_dir import RunDir

from .mlflow_logger import Delivery


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
    results = [_deliver(path, options.tracking_uri) for path in options.run_dir]
    return 0 if all(results) else 1


def _deliver(path: Path, tracking_uri: str) -> bool:
    """Deliver one run and say how it went; whether nothing waits any more."""
    delivery = Delivery(RunDir(path))
    target = delivery.read_target()
    if not target:
        print(f"{path}: nothing to deliver: no run has sent MLflow anything from here")
        return path.is_dir()
    if not delivery.is_alone():
        print(f"{path}: this run is still going on and delivers by itself")
        return False
    uri = tracking_uri or target["tracking_uri"]
    try:
        if not tracking_uri and not _is_meant(path, hidden(uri)):
            return False
        uri = delivery.tracking_uri = take(uri)
        note = ""
        if target["status"] == "RUNNING":  # and nobody runs it: it did not end by itself
            file = delivery.run_dir.metrics_csv
            end_s = file.stat().st_mtime if file.exists() else time.time()
            delivery.write_target(status="KILLED", end_ms=int(end_s * 1000))
            note = "; the run had been killed"
        waiting = delivery.waiting() or "nothing: it has everything"
        if failure := delivery.send(is_final=True):
            reason = hidden(f"{type(failure).__name__}: {failure}")
            print(f"{path}: {uri} failed: {reason}; waiting: {delivery.waiting()}")
            return False
        print(f"{path}: delivered {waiting} to {uri}{note}")
        return True
    finally:
        delivery.lock.release()


def _is_meant(path: Path, uri: str) -> bool:
    """Whether a person wants the files of a folder at the server that this folder, which may be anybody's, names."""
    if uri == hidden(os.environ.get("MLFLOW_TRACKING_URI", "")):
        return True
    if sys.stdin.isatty():
        return input(f"{path}: deliver its figures and files to {uri}? [y/N] ").strip().lower() in ("y", "yes")
    print(f"{path}: it names {uri} as its store; to confirm that, add --tracking-uri {uri}")
    return False


if __name__ == "__main__":
    sys.exit(main())
