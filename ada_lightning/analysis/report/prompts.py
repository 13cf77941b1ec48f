"""How difficult the prompts were and what was spent on them, from a run's ``prompts.csv`` where it has one."""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ada_lightning.analysis.report.drawing import Drawing, blank, finished, style, tidy
from ada_lightning.analysis.report.method import Method
from ada_lightning.run.run_dir import RunDir

EDGES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
BINS = ("never", "<0.1", "<0.3", "<0.5", "<0.7", "<0.9", "<0.98", "always")
"""Classes of pass rates, as in a run's ``sampling.png``."""
MAX_STRETCHES = 10


def read_visits(folder: Path) -> NDArray[np.float64]:
    """Read ``prompts.csv`` without hinted groups and visits whose pass rate nobody knows; nothing without a file.

    Returns:
        Step, index of the prompt's class in :data:`BINS` and responses drawn. Shape ``(visits, 3)``.

    Raises:
        ValueError: the file lacks a column or a value is no number.
    """
    path = RunDir(folder).prompts_csv
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    rows = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))  # a kill cuts the last line at worst
    visits = []
    try:
        for row in rows:
            rate = float(row["pass_rate"] or "nan")  # unbiased by stopping, in [0, 1] up to rounding
            if math.isfinite(rate) and (row.get("hint") or "0") == "0":
                visits.append((int(row["step"]), bisect_right(EDGES, rate), int(row["num_drawn"])))
    except KeyError as error:
        raise ValueError(f"{path} has no column {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}, line {rows.line_num} cannot be read: {error}") from error
    return np.array(visits, dtype=np.float64).reshape(-1, 3)


def draw_prompts(methods: Sequence[Method]) -> list[Drawing]:
    """Draw the budget by difficulty, and each method's prompts by difficulty over the training.

    Returns:
        Nothing where no run keeps a prompt log.
    """
    visits = [np.concatenate([read_visits(run.folder) for run in method.runs]) for method in methods]
    if not any(map(len, visits)):
        return []
    histograms = [
        _draw_histogram(method, of_method, index)
        for index, (method, of_method) in enumerate(zip(methods, visits, strict=True))
        if len(of_method)
    ]
    return [_draw_budget(visits), *histograms]


def _draw_budget(visits: Sequence[NDArray[np.float64]]) -> Drawing:
    with blank() as figure:
        axes = figure.subplots()
        for index, of_method in enumerate(visits):
            color, dash = style(index)
            _, difficulty, num_drawn = of_method.T
            there = np.unique(difficulty)
            means = [num_drawn[difficulty == place].mean() for place in there]
            axes.plot(there, means, color=color, linestyle=dash, marker="o", markersize=4)
        axes.set_xticks(range(len(BINS)), BINS)
        tidy(axes, "responses drawn per prompt")
        axes.set_xlabel("pass rate of the prompt")
        axes.set_ylim(bottom=0)
        return finished(figure, "budget_by_difficulty", "responses drawn per prompt, by its pass rate")


def _draw_histogram(method: Method, visits: NDArray[np.float64], index: int) -> Drawing:
    import matplotlib

    step, difficulty, _ = visits.T
    size = math.ceil((step.max() + 1) / MAX_STRETCHES)
    starts = np.arange(0, step.max() + 1, size)
    edges = [np.append(starts, starts[-1] + size), np.arange(len(BINS) + 1)]
    counts = np.histogram2d(step, difficulty, bins=edges)[0]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    with blank() as figure:
        axes = figure.subplots()
        colors = matplotlib.colormaps["viridis"]
        bottom = np.zeros(len(starts))
        for place, label in enumerate(BINS):
            color = colors(place / (len(BINS) - 1))
            axes.bar(starts, shares[:, place], size * 0.94, bottom, align="edge", color=color, label=label)
            bottom = bottom + shares[:, place]
        tidy(axes, method.name)
        axes.set_xlabel("rollout steps")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(
            handles[::-1], labels[::-1], loc="outside right center", frameon=False, title="pass rate", handlelength=1
        )
        return finished(figure, f"pass_rates_{index + 1}", f"prompts by pass rate over the training: {method.name}")
