"""The study's files in ``docs/studies/gradient_variance``, and what all of it shares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from research.benchmarks.report import DOCS, header

BASE = "GRPO, n = 8"
"""What everything is compared with."""
MIX_NAMES = ("step 50", "step 400", "wide")
KINDS = ("generated", "trained")
"""Of responses or tokens, in which costs are counted."""
ROOT = Path(__file__).resolve().parents[3]
FOLDER = DOCS / "studies" / "gradient_variance"
CACHE = ROOT / "runs" / "gradient_variance"
"""Draws and sketches of a measurement that is under way; not committed."""


def save(name: str, content: dict[str, Any]) -> Path:
    """Write ``docs/studies/gradient_variance/<name>.json``."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    whole = header("research.studies.gradient_variance") | content
    parts = [f" {json.dumps(key)}: {_lines(value)}" for key, value in whole.items()]
    path = FOLDER / f"{name}.json"
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    return path


def load(name: str) -> dict[str, Any]:
    """Read what :func:`save` wrote."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return content


def checkpoints() -> list[str]:
    """Names of the checkpoints that have been measured, the untrained model first."""
    names = [path.stem.removeprefix("moments-") for path in sorted(FOLDER.glob("moments-*.json"))]
    return sorted(names, key=lambda name: (name != "base", name))


def rounded(value: Any, digits: int = 5) -> Any:
    """Round every float in nested lists and dicts to significant digits.

    Example:
        >>> rounded({"a": [1.23456789, 3]}, digits=3)
        {'a': [1.23, 3]}
    """
    if isinstance(value, dict):
        return {key: rounded(part, digits) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part, digits) for part in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _lines(value: Any) -> str:
    """Return a list or dict one element a line, so that a change of one figure is a change of one line."""
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"  {json.dumps(part)}" for part in value) + "\n ]"
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(part)}" for key, part in value.items()) + "\n }"
    return json.dumps(value)
