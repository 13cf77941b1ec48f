"""What a run's own held-out evaluations say of exported weights, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ada_lightning.analysis.evaluation.intervals import Estimate, estimate_means
from ada_lightning.analysis.export.source import ExportSource

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class HeldoutFigures:
    """Held-out avg@k: the mean over prompts of the mean reward of k responses."""

    name: str
    """``avg@4``, say."""
    before: Estimate | float | None
    """Of the run's first evaluation; a number has no interval, None is unknown."""
    after: Estimate | float
    """Of the exported weights."""
    difference: Estimate | None = None
    """On the same prompts, after minus before."""
    before_version: int = 0
    """Updates behind the first evaluation's weights."""


def heldout_figures(source: ExportSource) -> HeldoutFigures | None:
    """Read what the run measured of the exported weights.

    Intervals come from the responses that the run kept (``responses/eval``), over prompts, as
    those of an evaluation. Of an average of the weights, and where no responses were kept, there is the figure alone.

    Returns:
        None where these weights were not evaluated.

    Args:
        source: weights and run.
    """
    run, version = source.run, source.policy_version
    key = run.heldout_key
    if key is None:
        return None
    name = key.rpartition("/")[2].replace("_at_", "@")
    column = key.replace("eval/", "eval_average/", 1) if source.is_average else key
    measured = {int(row["step"]): row for row in run.rows if column in row}
    if version not in measured:
        return None
    first = min((int(row["step"]) for row in run.rows if key in row), default=version)
    before = next((row[key] for row in run.rows if int(row["step"]) == first and key in row), None)
    means: Mapping[int, pd.Series[float]] = {}
    lowest, highest = 0.0, 1.0
    if not source.is_average:
        means, lowest, highest = _means_by_prompt(run.folder / "responses" / "eval", {first, version})
    if version not in means:
        return HeldoutFigures(name, before if first < version else None, measured[version][column], None, first)
    pair = means[version].to_frame("after")
    if first < version and first in means:
        both = means[first].to_frame("before").join(pair, how="inner").assign(change=lambda of: of.after - of.before)
        if not both.empty:  # otherwise held-out prompts were others then
            ends = np.array([[lowest, lowest, lowest - highest], [highest, highest, highest - lowest]])
            start, end, change = estimate_means([both.to_numpy()], [1.0], ends)
            return HeldoutFigures(name, start, end, change, first)
    (after,) = estimate_means([pair.to_numpy()], [1.0], np.array([[lowest], [highest]]))
    return HeldoutFigures(name, None, after)


def _means_by_prompt(folder: Path, versions: set[int]) -> tuple[Mapping[int, pd.Series[float]], float, float]:
    """Return mean rewards of kept prompts, by policy version, and between what rewards lie: 0 and 1, or wider."""
    import pandas as pd

    found, lowest, highest = {}, 0.0, 1.0
    for file in sorted(folder.glob("step_*.parquet")):
        frame = pd.read_parquet(file, columns=["policy_version", "slot", "prompt_id", "reward"])
        version = int(frame["policy_version"].iloc[0])
        if version in versions:
            found[version] = frame.groupby(["slot", "prompt_id"])["reward"].mean()
            lowest, highest = min(lowest, frame["reward"].min()), max(highest, frame["reward"].max())
    return found, float(lowest), float(highest)
