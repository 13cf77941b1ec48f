"""Compare groups of runs by what they held out at equal numbers of generated tokens: figures, table, plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from research.studies.runs import StudyRun

Curves = Mapping[str, Sequence[Sequence[tuple[float, float]]]]
"""(generated tokens, held-out avg@4) at each evaluation of each run, by the name of its group."""
_COLORS = ("#1f6f8b", "#c8553d", "#6b8f3a", "#7a5195")


def curves_of(groups: Mapping[str, Sequence[StudyRun]]) -> Curves:
    """Read the runs that are done."""
    curves = {name: [run.result()["held_out"] for run in runs if run.is_done()] for name, runs in groups.items()}
    if empty := [name for name, group in curves.items() if not group]:
        raise ValueError(f"no run of {', '.join(empty)} is done, so there is nothing to compare; train some first")
    return curves


def at_equal_tokens(curves: Curves, shares: Sequence[float] = (0.25, 0.5, 0.75, 1.0)) -> list[dict[str, Any]]:
    """Return one row per share of the tokens that every run has generated, with each group's values.

    Example:
        >>> at_equal_tokens({"a": [[(0, 0.0), (100, 1.0)]], "b": [[(0, 0.0), (200, 1.0)]]}, shares=[0.5])
        [{'tokens': 50, 'a': [0.5], 'b': [0.25]}]
    """
    last_common = min(curve[-1][0] for group in curves.values() for curve in group)
    grid = [round(last_common * share) for share in shares]
    return [
        {"tokens": tokens}
        | {name: [float(_at(curve, np.array(tokens))) for curve in group] for name, group in curves.items()}
        for tokens in grid
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return Markdown: mean over runs, in brackets the lowest and the highest."""
    names = [name for name in rows[0] if name != "tokens"]
    lines = ["| generated tokens | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for row in rows:
        cells = [f"{np.mean(row[name]):.3f} ({min(row[name]):.3f} to {max(row[name]):.3f})" for name in names]
        lines.append(f"| {row['tokens']:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(curves: Curves, path: Path) -> None:
    """Draw every run thinly and each group's mean, as far as all of its runs go."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
    for (name, group), color in zip(curves.items(), cycle(_COLORS), strict=False):
        for curve in group:
            tokens, average = zip(*curve, strict=True)
            axes.plot(np.array(tokens) / 1000, average, color=color, alpha=0.3, linewidth=1)
        grid = np.linspace(0, min(curve[-1][0] for curve in group), 60)
        mean = np.mean([_at(curve, grid) for curve in group], axis=0)
        axes.plot(grid / 1000, mean, color=color, linewidth=2.5, label=f"{name} (mean of {len(group)} seeds)")
    axes.set_xlabel("generated tokens, thousands")
    axes.set_ylabel("held-out avg@4")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _at(curve: Sequence[tuple[float, float]], tokens: NDArray[Any]) -> NDArray[Any]:
    """Value of a curve at given numbers of tokens, by straight lines between its points."""
    xs, ys = np.array(curve).T
    return np.asarray(np.interp(tokens, xs, ys))
