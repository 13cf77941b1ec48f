"""The folder of one run: who may write to it, and the files that every run leaves there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf


class RunDir:
    """A named folder that belongs to one run, from its fresh start through every resume.

    Args:
        path: the folder; made by :meth:`claim`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def metrics_csv(self) -> Path:
        """One row of metrics per step."""
        return self.path / "metrics.csv"

    @property
    def prompts_csv(self) -> Path:
        """One row for each prompt of each step: what it cost and gave."""
        return self.path / "prompts.csv"

    @property
    def checkpoints(self) -> Path:
        """Holds ``step_<n>`` for each checkpoint, and ``last``."""
        return self.path / "checkpoints"

    def claim(self, *, resume: bool) -> None:
        """Make the folder, or refuse it, before anything is written.

        Raises:
            ValueError: a fresh start in a used folder, or a resume without a checkpoint to continue from.
        """
        if resume:
            self.last_checkpoint()
        elif used := [p.name for p in (self.path / "config.yaml", self.metrics_csv, self.checkpoints) if p.exists()]:
            raise ValueError(
                f"the run folder {self.path} is in use (it has {', '.join(used)}); to continue that run: "
                f"ckpt=last run_name={self.path.name}; to start anew choose another name: run_name=<new name>"
            )
        self.path.mkdir(parents=True, exist_ok=True)

    def write_config(self, cfg: DictConfig) -> Path:
        """Keep the settings the run was started with; a resume with other settings adds ``config-resumed-<n>.yaml``.

        ``ckpt`` alone makes no difference: every resume sets it.

        Returns:
            The file that holds this configuration, every interpolation resolved.
        """
        first = self.path / "config.yaml"
        target, text = first, OmegaConf.to_yaml(cfg, resolve=True)
        if first.exists():
            resumed = sorted(self.path.glob("config-resumed-*.yaml"), key=_last_number)
            newest = resumed[-1] if resumed else first
            if _without_ckpt(yaml.safe_load(newest.read_text(encoding="utf-8"))) == _without_ckpt(yaml.safe_load(text)):
                return newest
            target = self.path / f"config-resumed-{len(resumed) + 1}.yaml"
        _replace(target, text)
        return target

    def has_checkpoint(self) -> bool:
        """Whether there is something to continue from."""
        try:
            self.last_checkpoint()
        except ValueError:
            return False
        return True

    def last_checkpoint(self) -> Path:
        """Return what ``checkpoints/last`` points to, else the complete checkpoint with the highest step.

        A checkpoint that is being written has ``.tmp`` in its name and does not count.

        Raises:
            ValueError: there is no complete checkpoint.
        """
        last = self.checkpoints / "last"
        if last.exists():  # False for a link to a checkpoint that was deleted
            return last.resolve()
        complete = [path for path in self.checkpoints.glob("step_*") if ".tmp" not in path.name]
        if not complete:
            raise ValueError(
                f"nothing to continue from: {self.checkpoints} has no complete checkpoint; leave out ckpt=last and "
                "start under another name: run_name=<new name>"
            )
        return max(complete, key=_last_number)

    def write_summary(self, summary: Mapping[str, Any]) -> Path:
        """Write ``summary.json``, whole or not at all."""
        target = self.path / "summary.json"
        _replace(target, json.dumps(summary, indent=2) + "\n")
        return target

    @property
    def mlflow_run_id(self) -> str:
        """Run in the MLflow store that this folder belongs to; empty before the first start."""
        file = self.path / "mlflow_run_id"
        return file.read_text(encoding="utf-8").strip() if file.exists() else ""

    def write_mlflow_run_id(self, run_id: str) -> None:
        """Remember the MLflow run, so that a resume continues its curves."""
        _replace(self.path / "mlflow_run_id", run_id + "\n")


def _replace(target: Path, text: str) -> None:
    """Write a file so that a reader finds the old content or the new, never a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)


def _last_number(path: Path) -> int:
    numbers = re.findall(r"\d+", path.name)
    return int(numbers[-1]) if numbers else -1


def _without_ckpt(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "ckpt"}
