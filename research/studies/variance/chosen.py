"""The rules that tables and plots show, and the names they have there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from research.benchmarks.report import DOCS, header

BASE = "uniform 8 / all / GRPO"
"""What everything is compared with."""
MIX_NAMES = ("step 50", "step 400", "wide")
SHOWN = {
    "uniform 4 / all / GRPO": "GRPO, n = 4",
    BASE: "GRPO, n = 8",
    "uniform 16 / all / GRPO": "GRPO, n = 16",
    "uniform 8 / all / exact p": "n = 8, exact p (RLOO)",
    "uniform 8 / all / exact log p": "n = 8, exact log p (MaxRL)",
    "uniform 8 / all / exact pass@4": "n = 8, exact pass@4",
    "uniform 8 / 2+2 / exact p": "n = 8, 2+2 kept, exact p",
    "uniform 8 / rarer + as many / exact p": "n = 8, rarer class + as many, exact p",
    "uniform 8 / rarer class / rounded baseline": "n = 8, rarer class alone, rounded baseline",
    "uniform 8 / positives / exact log p": "n = 8, positives alone, log p (RAFT)",
    "Seq-balance k=2 / 2+2 / official": "Seq-balance, 2+2 kept, official",
    "Seq-balance k=2 / 2+2 / official x 1/p": "Seq-balance, 2+2 kept, official x 1/p",
    "Seq-balance k=2 / 2+2 / exact p": "Seq-balance, 2+2 kept, exact p",
    "Seq-balance k=2 / 2+2 / exact log p": "Seq-balance, 2+2 kept, exact log p",
    "Seq-balance k=2 / all / exact log p": "Seq-balance, all kept, exact log p",
    "Seq-balance k=2 / all / official": "Seq-balance, all kept, official",
    "Seq-balance k=2 / positives / exact log p": "Seq-balance, positives alone, log p",
    "Seq-pos k=1 / 2+2 / official": "Seq-pos, 2+2 kept, official",
    "Seq-pos k=1 / all / exact log p": "Seq-pos, all kept, exact log p",
    "Seq-pos k=2 / positives / exact log p": "Seq-pos k = 2, positives alone, log p",
    "screen 4, then 4 / all / exact p": "screen 4, then 4, exact p",
    "screen 4, then 20 / all / exact p": "screen 4, then 20, exact p",
    "screen 4, then 20 / all / RLOO": "screen 4, then 20, RLOO (SPEED)",
}
"""Rules without a memory, by their name in ``exact.json``."""
HISTORY_SHOWN = {
    "VIP, RLOO, 8 on average": "VIP",
    "Ada-Est, 8 on average": "Ada-Est, exact p",
    "Knapsack, 8 on average": "Knapsack, exact p",
    "CoBA-RL, 8 on average": "CoBA-RL, exact p",
    "baseline from history, 1 response": "1 response, baseline from history",
    "baseline from history and the others, 4 responses": "4 responses, baseline from history and the others",
    "rarer class by history, 1 response": "1 response, rarer class by history trains",
    "n by sqrt(p q), weighted back": "drawn by sqrt(p q), weighted back",
    "n by p q, not weighted back": "drawn by p q, not weighted back",
    "best half by history, 4 responses": "best half by history, 4 responses",
    "best quarter by history, 1 response": "best quarter by history, 1 response",
    "best quarter by history, 4 responses": "best quarter by history, 4 responses",
}
"""Rules that know one visit."""
PLOTTED = (
    BASE,
    "uniform 8 / all / exact log p",
    "Seq-balance k=2 / 2+2 / official",
    "Seq-balance k=2 / 2+2 / exact log p",
    "Seq-balance k=2 / all / exact log p",
    "Seq-pos k=1 / 2+2 / official",
    "Seq-pos k=2 / positives / exact log p",
    "uniform 8 / rarer class / rounded baseline",
    "screen 4, then 20 / all / RLOO",
)
HISTORY_PLOTTED = (
    "VIP, RLOO, 8 on average",
    "baseline from history, 1 response",
    "rarer class by history, 1 response",
    "best quarter by history, 4 responses",
)
RATE_PLOTTED = (
    BASE,
    "Seq-balance k=2 / 2+2 / official",
    "Seq-balance k=2 / 2+2 / exact log p",
    "Seq-balance k=2 / all / exact log p",
    "screen 4, then 20 / all / RLOO",
    "uniform 8 / rarer class / rounded baseline",
)
ON_MODEL = (
    "uniform 4 / all / GRPO",
    BASE,
    "uniform 16 / all / GRPO",
    "uniform 8 / all / exact p",
    "uniform 8 / all / exact log p",
    "uniform 8 / rarer + as many / exact p",
    "uniform 8 / rarer class / rounded baseline",
    "uniform 8 / positives / exact log p",
    "Seq-balance k=2 / 2+2 / official",
    "Seq-balance k=2 / 2+2 / exact log p",
    "Seq-balance k=2 / all / exact log p",
    "Seq-pos k=1 / 2+2 / official",
    "Seq-pos k=2 / positives / exact log p",
    "screen 4, then 20 / all / exact p",
    "screen 4, then 20 / all / RLOO",
)
"""Rules whose variance is computed with a model's moments."""
HISTORY_ON_MODEL = (
    "VIP, RLOO, 8 on average",
    "baseline from history, 1 response",
    "baseline from history and the others, 4 responses",
    "rarer class by history, 1 response",
    "n by p q, not weighted back",
    "best half by history, 4 responses",
    "best quarter by history, 1 response",
    "best quarter by history, 4 responses",
)
LENGTHS_SHOWN = {
    "uniform 2 / all / exact p": "n = 2, exact p",
    "uniform 4 / all / exact p": "n = 4, exact p",
    "uniform 8 / all / exact p": "n = 8, exact p",
    "uniform 16 / all / exact p": "n = 16, exact p",
    "uniform 32 / all / exact p": "n = 32, exact p",
    "Seq-balance k=2 / 2+2 / official": SHOWN["Seq-balance k=2 / 2+2 / official"],
    "Seq-balance k=2 / all / exact log p": SHOWN["Seq-balance k=2 / all / exact log p"],
    "Seq-pos k=1 / 2+2 / official": SHOWN["Seq-pos k=1 / 2+2 / official"],
    "screen 4, then 4 / all / exact p": SHOWN["screen 4, then 4 / all / exact p"],
    "screen 4, then 20 / all / RLOO": SHOWN["screen 4, then 20 / all / RLOO"],
    **HISTORY_SHOWN,
}
"""Rules whose cost is shown by the length of Delta."""


ROOT = Path(__file__).resolve().parents[3]
FOLDER = DOCS / "studies" / "gradient_variance"
CACHE = ROOT / "runs" / "gradient_variance"
"""Draws and sketches of a measurement that is under way; not committed."""


def save(name: str, content: dict[str, Any]) -> Path:
    """Write ``docs/studies/gradient_variance/<name>.json``, four or five digits a number."""
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
