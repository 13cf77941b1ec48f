"""Train a grid of runs, one after another, and read what they logged. A study that was killed goes on where it was."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from callbacks.metrics_csv import read_metrics

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class StudyRun:
    """One training run of a study."""

    study: str
    method: str
    """Name of the experiment."""
    seed: int
    overrides: tuple[str, ...] = ()
    label: str = ""
    """Name of the run in folders and tables, where one experiment runs with different settings; else the method's."""

    @property
    def name(self) -> str:
        """What tells the run from others of its study."""
        return f"{self.label or self.method}-{self.seed}"

    @property
    def folder(self) -> Path:
        """Run folder."""
        return ROOT / "runs" / self.study / self.name

    def train(self) -> None:
        """Train unless it is done; continue where a checkpoint is.

        Raises:
            subprocess.CalledProcessError: the training run failed; its log is in the run's folder.
        """
        if self.is_done():
            return
        started = (self.folder / "checkpoints" / "last").exists()
        if not started and self.folder.exists():
            self.folder.rename(self.folder.with_name(f"{self.folder.name}.broken"))
        command = [
            sys.executable,
            str(ROOT / "train.py"),
            f"+experiment={self.method}",
            f"seed={self.seed}",
            f"run_name={self.study}/{self.name}",
            *self.overrides,
            *(["ckpt=last"] if started else []),
        ]
        log = self.folder.parent / f"{self.folder.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        print(" ".join(command[1:]), flush=True)
        with log.open("a") as output:
            subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, check=True)

    @property
    def result_file(self) -> Path:
        """What is committed of the run."""
        return ROOT / "docs" / "studies" / self.study / f"{self.name}.json"

    def is_done(self) -> bool:
        """Whether the run ended, here or where its committed result comes from."""
        return self.result_file.exists() or self._has_finished()

    def result(self) -> dict[str, Any]:
        """Return and keep (generated tokens, held-out avg@4) at each evaluation, seconds by phase, and the settings."""
        if not self.result_file.exists():
            summary = json.loads((self.folder / "summary.json").read_text())
            result = {
                "method": self.method,
                "seed": self.seed,
                "overrides": list(self.overrides),
                "held_out": held_out_curve([dict(row) for row in read_metrics(self.folder / "metrics.csv")]),
                "seconds": summary["seconds"],
                "responses": summary["responses"],
                "generated_tokens": summary["generated_tokens"],
                "signal_ratio_mean": summary["signal_ratio_mean"],
            }
            self.result_file.parent.mkdir(parents=True, exist_ok=True)
            self.result_file.write_text(json.dumps(result, indent=1) + "\n")
        loaded: dict[str, Any] = json.loads(self.result_file.read_text())
        if tuple(loaded["overrides"]) != self.overrides:
            raise ValueError(f"{self.result_file} was made with {loaded['overrides']}; move it away to train it anew")
        return loaded

    def _has_finished(self) -> bool:
        summary = self.folder / "summary.json"
        return summary.exists() and json.loads(summary.read_text()).get("status") == "finished"


def held_out_curve(rows: Sequence[dict[str, float]]) -> list[tuple[float, float]]:
    """Return (tokens generated for training so far, held-out avg@4) at every evaluation."""
    tokens = 0.0
    curve = []
    for row in rows:  # an evaluation stands in the row of the step that follows it
        if "eval/avg_at_4" in row:
            curve.append((tokens, row["eval/avg_at_4"]))
        tokens += row.get("rollout/generated_tokens", 0.0) + row.get("rollout/tokens_wasted", 0.0)
    return curve
