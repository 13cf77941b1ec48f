"""Where the field's files are."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "studies" / "cost_benefit"
TUNING = FOLDER / "tuning.jsonl"
RUNS = FOLDER / "runs.jsonl"
SMOLLM2 = FOLDER / "smollm2.jsonl"
SMOLLM2_TUNING = FOLDER / "smollm2_tuning.jsonl"
FRESH = FOLDER / "fresh.jsonl"
LEVERS = FOLDER.parent / "levers" / "runs.jsonl"
HARD = FOLDER.parent / "hard_prompts"
