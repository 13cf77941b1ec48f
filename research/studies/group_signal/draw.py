"""Draw many responses per held-out prompt with evaluate.py, and keep how many were right."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ada_lightning.analysis.evaluation.checkpoint import resolve_checkpoint
from ada_lightning.analysis.evaluation.results import read_plan, read_results, set_folder
from ada_lightning.analysis.offline import ResponseStore
from ada_lightning.analysis.offline.outcome import OutcomeRule
from research.benchmarks.report import machine, versions
from research.studies.group_signal.rules import counts_file
from research.studies.runs import ROOT

OF_RUN = ("experiment_name", "seed", "num_steps", "sampler", "selection", "advantage", "objective", "optimizer")
"""Settings of a run that stand beside the counts of its model."""


@dataclass(frozen=True)
class CountedDraw:
    """Responses of one model."""

    name: str
    """Of the model in tables and files: ``untrained``, ``trained``."""
    arguments: tuple[str, ...]
    """Of evaluate.py: which model and data."""
    num_prompts: int
    num_responses: int
    """Per prompt."""

    @property
    def file(self) -> Path:
        """Where the counts are committed."""
        return counts_file(self.name)

    def complete(self) -> None:
        """Draw what is missing, then count. What was drawn before a kill is kept."""
        if self.file.exists():
            if json.loads(self.file.read_text())["command"] != self._command():
                raise ValueError(f"{self.file} was made by another command; move it away, or choose another name")
            return
        evaluation = f"signal_loss-{self.name}"
        command = [
            sys.executable,
            str(ROOT / "evaluate.py"),
            *self.arguments,
            f"label={self.name}",
            f"run_name={evaluation}",
            f"eval.num_samples={self.num_responses}",
            f"eval.sets.heldout.num_prompts={self.num_prompts}",
            "prompts_per_file=8",
            "mlflow=null",
        ]
        subprocess.run(command, cwd=ROOT, check=True)
        content = {"command": self._command(), "machine": machine(), "versions": versions()}
        content |= counted(ROOT / "evaluations" / evaluation) | self._training()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(_compact(content))

    def _command(self) -> str:
        sizes = f"--prompts {self.num_prompts} --responses {self.num_responses}"
        return f"python -m research.studies.signal_loss {sizes} --draw {shlex.join([self.name, *self.arguments])}"

    def _training(self) -> dict[str, Any]:
        """Settings of the run whose checkpoint it is; empty for other models."""
        named = [line.partition("=")[2] for line in self.arguments if line.startswith("checkpoint=")]
        run = (
            resolve_checkpoint(str(ROOT / named[0]) if (ROOT / named[0]).exists() else named[0]).run if named else None
        )
        if run is None:
            return {}
        config = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
        return {"trained_with": {key: config[key] for key in OF_RUN if key in config}}


def counted(folder: Path) -> dict[str, Any]:
    """Count the stored responses of an evaluation of one set.

    Returns:
        ``prompts``: a list each of prompt id, right responses, graded responses, tokens, truncated responses.
    """
    results = read_results(folder)
    plan = read_plan(results)
    if len(plan.weights) != 1:
        raise ValueError(f"{folder} holds {len(plan.weights)} sets ({', '.join(plan.weights)}); the study counts one")
    store = ResponseStore(set_folder(folder, next(iter(plan.weights))))
    rule = OutcomeRule(plan.positive_threshold, "grade", "as_zero" if plan.grader_failure == "as_zero" else "exclude")
    outcomes = rule.outcomes(store.table())
    job = json.loads((store.folder / "job.json").read_text(encoding="utf-8"))
    return {
        "num_responses": plan.num_samples,
        "seed": job["seed"],
        "weights": job["model"]["weights"],
        "sampling": results["sampling"],
        "dtype": job["dtype"],
        "columns": ["prompt", "right", "graded", "tokens", "truncated"],
        "prompts": [
            [found.prompt_id, found.num_positive, found.num_counted, found.num_tokens, found.num_truncated]
            for found in outcomes.itertuples()
        ],
    }


def check_same_prompts(files: Sequence[Path]) -> None:
    """Compare the prompts of files of counts."""
    asked = [[row[0] for row in json.loads(file.read_text())["prompts"]] for file in files]
    for file, prompts in zip(files, asked, strict=True):
        if prompts != asked[0]:
            raise ValueError(
                f"{file.name} counts other prompts than {files[0].name}; draw both with the same data and --prompts"
            )


def _compact(content: dict[str, Any]) -> str:
    """Write JSON with one prompt a line."""
    prompts: Sequence[Any] = content["prompts"]
    head = json.dumps({key: value for key, value in content.items() if key != "prompts"}, indent=1)
    rows = ",\n".join(f"  {json.dumps(row)}" for row in prompts)
    return f'{head[:-2]},\n "prompts": [\n{rows}\n ]\n}}\n'
