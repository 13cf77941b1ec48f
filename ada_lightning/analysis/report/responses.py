"""Sampled responses that a run kept, whichever way it kept them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One response, as the page shows it."""

    prompt_id: str
    prompt: str
    text: str
    reward: float
    is_kept: bool
    """Whether it may train."""
    advantage: float
    is_truncated: bool
    """Whether the length limit cut it."""


def training_tables(folder: Path) -> Iterator[tuple[int, list[Sample]]]:
    """Tables of training responses by step: ``responses/train``, else the smaller ``rollouts``.

    Raises:
        ValueError: a file cannot be read; the text names it.
    """
    kept = sorted((folder / "responses" / "train").glob("step_*.parquet"))
    for path in kept or sorted((folder / "rollouts").glob("step_*.jsonl")):
        yield _step(path), read_table(path)


def heldout_table(folder: Path) -> tuple[int, list[Sample]] | None:
    """Responses to held-out prompts when they were last evaluated, and the step; None where they were not kept."""
    kept = sorted((folder / "responses" / "eval").glob("step_*.parquet"), key=_step)
    return (_step(kept[-1]), read_table(kept[-1])) if kept else None


def read_table(path: Path) -> list[Sample]:
    """Read a table of responses, JSON lines or Parquet.

    Raises:
        ValueError: it cannot be read; the text names the file.
    """
    try:
        rows = _parquet_rows(path) if path.suffix == ".parquet" else _json_rows(path)
        return [_sample(row) for row in rows]
    except (ValueError, TypeError, AttributeError) as error:  # pyarrow's own errors are ValueErrors
        raise ValueError(f"{path} cannot be read as a table of responses: {error}") from error


def _json_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _parquet_rows(path: Path) -> list[dict[str, Any]]:
    from pyarrow import parquet

    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def _sample(row: Mapping[str, Any]) -> Sample:
    prompt = str(row.get("prompt", ""))
    return Sample(
        prompt_id=str(row.get("prompt_id", prompt)),
        prompt=prompt,
        text=str(row.get("text", row.get("response", ""))),
        reward=float(row.get("reward", 0.0)),
        is_kept=bool(row.get("is_kept", row.get("kept", False))),
        advantage=float(row.get("advantage") or 0.0),
        is_truncated=bool(row.get("truncated", row.get("finish_reason") == "length")),
    )


def _step(path: Path) -> int:
    return int(re.findall(r"\d+", path.name)[-1])
