"""Deliver what a run could not tell MLflow while it ran: ``python -m callbacks.mlflow_deliver runs/<run>``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.run_dir import RunDir
from callbacks.mlflow_sender import MlflowSender


def main(arguments: Sequence[str] | None = None) -> int:
    """Deliver the given run folders.

    Returns:
        0 where nothing waits any more, else 1: the exit status.
    """
    parser = argparse.ArgumentParser(prog="python -m callbacks.mlflow_deliver", description=__doc__)
    parser.add_argument("run_dir", nargs="+", type=Path, help="folder of a run, for example runs/*")
    parser.add_argument("--tracking-uri", default="", help="where the store is now; default: where it was in the run")
    options = parser.parse_args(arguments)
    results = [deliver(path, tracking_uri=options.tracking_uri) for path in options.run_dir]
    return 0 if all(results) else 1


def deliver(path: Path, *, tracking_uri: str = "") -> bool:
    """Deliver one run and say how it went.

    Args:
        path: folder of the run.
        tracking_uri: where the store is now; empty for where it was in the run.

    Returns:
        Whether nothing waits any more.
    """
    sender = MlflowSender(RunDir(path))
    target = sender.read_target()
    if not target:
        print(f"{path}: nothing to deliver; no run told MLflow anything from here")
        return path.is_dir()
    if not sender.lock():
        print(f"{path}: this run is going on, and delivers by itself")
        return False
    uri = sender.tracking_uri_override = tracking_uri or target["tracking_uri"]
    try:
        waiting = sender.waiting()
        failure = sender.send()
        if failure is not None:
            print(f"{path}: {uri} failed: {type(failure).__name__}: {failure}; waiting: {sender.waiting()}")
            return False
        note = "; the run had been killed" if RunDir(path).mlflow_run_id and sender.close_killed_run() else ""
        print(f"{path}: delivered {waiting} to {uri}{note}")
        return True
    finally:
        sender.unlock()


if __name__ == "__main__":
    sys.exit(main())
