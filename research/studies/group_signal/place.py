"""Where the study's files are."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "studies" / "signal_loss"


def counts_file(name: str) -> Path:
    """Counts of a model."""
    return FOLDER / f"counts-{name}.json"
