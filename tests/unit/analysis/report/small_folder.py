"""Run folders made up for tests."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from pyarrow import parquet

from ada_lightning.analysis.report.run import Run, load_run
from ada_lightning.run.run_dir import RunDir


def write_run(
    folder: Path,
    *,
    experiment: str = "grpo",
    seed: int = 0,
    heldout: Mapping[int, float] | None = None,
    num_steps: int = 4,
    tokens: int = 100,
    seconds: float = 10.0,
    settings: Mapping[str, Any] | None = None,
    metrics: Sequence[Mapping[str, float]] = (),
    summary: Mapping[str, Any] | None = None,
) -> Path:
    """Write a run of ``num_steps`` steps, each of so many tokens and seconds, evaluated where ``heldout`` says.

    Further ``metrics`` are merged into the rows by place; ``summary`` None writes none.
    """
    folder.mkdir(parents=True)
    config = {
        "experiment_name": experiment,
        "run_name": folder.name,
        "run_dir": f"runs/{folder.name}",
        "seed": seed,
        "data": {"seed": seed},
        "callbacks": {"summary": {"run_dir": f"runs/{folder.name}"}},
        "logger": {"csv": {"run_dir": f"runs/{folder.name}"}},
        **(settings or {}),
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    rows: list[dict[str, Any]] = []
    for step in range(num_steps + 1):
        row: dict[str, Any] = {"step": step}
        if heldout and step in heldout:
            row["eval/avg_at_4"] = heldout[step]
        if step < num_steps:
            row |= {
                "rollout/generated_tokens": tokens,
                "rollout/tokens_wasted": 0,
                "rollout/signal_ratio": 0.5,
                "rollout/reward_first_round": 0.1 * step,
                "time/rollout_s": seconds,
                "time/eval_s": 1000.0,
            }
        rows.append(row | (dict(metrics[step]) if step < len(metrics) else {}))
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with (folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def make_run(folder: Path, **kwargs: Any) -> Run:
    """Write a run and read it."""
    return load_run(RunDir(write_run(folder, **kwargs)))


def write_responses(
    folder: Path, step: int, responses: Mapping[str, Sequence[tuple[str, float]]], *, stage: str = "train"
) -> None:
    """Write the responses of a step: for each prompt, which is its own id, texts and rewards; the first is kept."""
    rows = [
        {
            "prompt": prompt,
            "prompt_id": prompt,
            "text": text,
            "reward": reward,
            "is_kept": index == 0,
            "advantage": 0.25 if index == 0 else None,
            "finish_reason": "length" if stage == "eval" else "stop",
        }
        for prompt, answers in responses.items()
        for index, (text, reward) in enumerate(answers)
    ]
    target = folder / "responses" / stage / f"step_{step:06d}.parquet"
    target.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), target)
