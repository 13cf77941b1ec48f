"""Pass rates of the starting policy, which prompts they keep, and what drawing them took."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from research.studies.runs import ROOT

NUM_SAMPLES = 8
"""Responses of each prompt that are drawn to measure its pass rate."""
OF_TRAINING = ("optimizer/", "callbacks.", "trainer", "data.max_tokens_per_microbatch=")
"""Beginnings of settings that ``prepare.py`` has not."""
_NOTED = ("num_prompts", "num_samples", "generated_tokens", "num_selected", "prompts_by_positives")


def measured(file: Path) -> dict[str, dict[str, Any]]:
    """Return what each measurement drew and kept, by the name of its folder."""
    return json.loads(file.read_text()) if file.exists() else {}


def spent(found: Mapping[str, Any], row: Mapping[str, Any], *, is_part: bool) -> float:
    """Return the tokens of a measurement that a run with groups of four has to pay for.

    Args:
        found: notes of the measurement.
        row: of the run.
        is_part: whether prompts come once, so that a run pays for as many as it trained on. Each costs the responses
            of those that were left out, too.

    Example:
        >>> spent({"generated_tokens": 1000, "num_selected": 50}, {"responses": 80}, is_part=True)
        400.0
    """
    used = row["responses"] / 4 / found["num_selected"] if is_part else 1.0
    return float(used * found["generated_tokens"])


def measure(folder: Path, settings: Sequence[str], *, seed: int, file: Path) -> None:
    """Draw and grade the responses of every prompt with the starting policy, select, and note what it took.

    Prompts that are never or always right among their responses are left out.

    Args:
        folder: of the measurement, below the root; one that is whole is not drawn anew.
        settings: of model, data and engine; those of training are left out.
        seed: of its responses.
        file: of the notes.
    """
    if not (folder / "summary.json").exists():
        command = [
            *(sys.executable, str(ROOT / "prepare.py")),
            *(each for each in settings if not each.startswith(OF_TRAINING)),
            *(f"num_samples={NUM_SAMPLES}", "band.min_positive=1", f"band.max_positive={NUM_SAMPLES - 1}"),
            *(f"seed={seed}", f"run_dir={folder.relative_to(ROOT)}"),
        ]
        print(" ".join(command[1:]), flush=True)
        subprocess.run(command, cwd=ROOT, check=True)
    summary = json.loads((folder / "summary.json").read_text())
    found = measured(file) | {folder.name: {key: summary[key] for key in _NOTED}}
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(found[key])}" for key in sorted(found))
    file.write_text(f"{{\n{lines}\n}}\n")
