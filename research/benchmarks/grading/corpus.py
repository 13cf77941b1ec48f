"""The pairs that graders are asked about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "corpus.jsonl"
RULES = Path(__file__).parents[3] / "tests" / "unit" / "rewards" / "answer_pairs.jsonl"
KINDS = {
    "G1": "named values",
    "G2": "ratios",
    "G3": "ratios of several parts",
    "G4": "several choices",
    "G5": "one choice",
    "G6": "units of one letter",
    "G7": "units behind constants",
    "G8": "other units",
    "G9": "ordinals",
    "G10": "lists of words",
    "G11": "forms of a constant",
    "G12": "positive variables",
    "G13": "inequalities, intervals",
    "G14": "sets, unions",
    "G15": "vectors, matrices",
    "G16": "golds with a name",
    "G17": "other scripts",
    "G18": "words with numbers",
    "G19": "two units",
    "G20": "digit behind a factor",
    "G21": "value and approximation",
    "G22": "points, ±",
    "G23": "notation",
    "G24": "layout",
    "X1": "several boxes",
    "X2": "scale words",
    "A1": "equations",
    "B1": "unit in brackets",
    "B2": "thousands",
    "B4": "times of day",
    "C1": "golds with several `$`",
    "C2": "names, dates",
    "C3": "bases",
    "C4": "thousands in a fraction",
    "C7": "physics",
    "rules": "rules of MathReward",
}
"""What the pairs of a kind are about."""


@dataclass(frozen=True)
class Pair:
    """A gold answer and a given one.

    Args:
        kind: one of :data:`KINDS`.
        gold: of the data set.
        equal: what a person says.
        answer: as it stands in a box; empty where the whole response is given.
        response: the whole response, where it matters; else empty.
    """

    kind: str
    gold: str
    equal: bool
    answer: str = ""
    response: str = ""


def corpus() -> list[Pair]:
    """Return all pairs: those of kinds, then those of the rules."""
    pairs = [Pair(**row) for row in _rows(FILE)]
    return pairs + [Pair("rules", row["gold"], row["equal"], row["answer"]) for row in _rows(RULES)]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def cells(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return a row of a table: the kind, then equal pairs refused and unequal ones accepted by each grader."""
    title = f"{KINDS.get(row['kind'], row['kind'])} ({row['equal']} / {row['unequal']})"
    counts = (row["graders"].get(name) for name in names)
    return [title, *(f"{one['refused']} / {one['accepted']}" if one else "" for one in counts)]
