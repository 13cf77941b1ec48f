"""What a run's own held-out evaluations say of exported weights, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ada_lightning.analysis.evaluation.bootstrap import Estimate, bootstrap_means
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


def heldout_figures(source: ExportSource, *, seed: int = 0) -> HeldoutFigures | None:
    """Read what the run measured of the exported weights.

    Intervals come from the responses that the run kept (``responses/eval``), over prompts: 95 % BCa bootstrap. Of an
    average of the weights, and where no responses were kept, there is the figure alone.

    Returns:
        None where these weights were not evaluated.

    Args:
        source: weights and run.
        seed: of the resampling.
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
    if not source.is_average:
        means = _means_by_prompt(run.folder / "responses" / "eval", {first, version})
    if version not in means:
        return HeldoutFigures(name, before if first < version else None, measured[version][column], None, first)
    if first == version or first not in means:
        (after,) = bootstrap_means([means[version].to_frame().to_numpy()], [1.0], seed=seed)
        return HeldoutFigures(name, None, after)
    pair = means[first].to_frame("before").join(means[version].to_frame("after"), how="inner")
    pair["difference"] = pair["after"] - pair["before"]
    if pair.empty:  # held-out prompts were others then
        (after,) = bootstrap_means([means[version].to_frame().to_numpy()], [1.0], seed=seed)
        return HeldoutFigures(name, None, after)
    start, end, change = bootstrap_means([pair.to_numpy()], [1.0], seed=seed)
    return HeldoutFigures(name, start, end, change, first)


def _means_by_prompt(folder: Path, versions: set[int]) -> Mapping[int, pd.Series[float]]:
    """Mean reward of each kept prompt, by policy version."""
    import pandas as pd

    found = {}
    for file in sorted(folder.glob("step_*.parquet")):
        frame = pd.read_parquet(file, columns=["policy_version", "slot", "prompt_id", "reward"])
        version = int(frame["policy_version"].iloc[0])
        if version in versions:
            found[version] = frame.groupby(["slot", "prompt_id"])["reward"].mean()
    return found
