"""How difficult the prompts were and what was spent on them, from a run's ``prompts.csv`` where it has one."""

from __future__ import annotations

import csv
import io
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ada_lightning.analysis.report.drawing import Drawing, blank, finished, style, tidy
from ada_lightning.analysis.report.method import Method
from ada_lightning.run.run_dir import RunDir

EDGES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
BINS = ("never", "<0.1", "<0.3", "<0.5", "<0.7", "<0.9", "<0.98", "always")
"""Classes of pass rates, as in a run's ``sampling.png``."""
MAX_STRETCHES = 10


@dataclass(frozen=True)
class Visit:
    """A prompt in a step."""

    step: int
    pass_rate: float
    """Unbiased by stopping, in [0, 1] up to rounding."""
    num_drawn: int
    tokens: int

    @property
    def difficulty(self) -> int:
        """Index of its class in :data:`BINS`."""
        return bisect_right(EDGES, self.pass_rate)


def read_visits(folder: Path) -> list[Visit]:
    """Read ``prompts.csv`` without the visits whose pass rate nobody knows; nothing where there is no file.

    Raises:
        ValueError: the file lacks a column or a value is no number.
    """
    path = RunDir(folder).prompts_csv
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    rows = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))  # a kill cuts the last line at worst
    visits = []
    try:
        for row in rows:
            rate = float(row["pass_rate"] or "nan")
            if math.isfinite(rate):
                visits.append(Visit(int(row["step"]), rate, int(row["num_drawn"]), int(row["tokens"])))
    except KeyError as error:
        raise ValueError(f"{path} has no column {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}, line {rows.line_num} cannot be read: {error}") from error
    return visits


def draw_prompts(methods: Sequence[Method]) -> list[Drawing]:
    """Draw the budget by difficulty, and each method's prompts by difficulty over the training.

    Returns:
        Nothing where no run keeps a prompt log.
    """
    visits = [[visit for run in method.runs for visit in read_visits(run.folder)] for method in methods]
    if not any(visits):
        return []
    drawings = [_draw_budget(visits)]
    for index, (method, of_method) in enumerate(zip(methods, visits, strict=True)):
        if of_method:
            drawings.append(_draw_histogram(method, of_method, index))
    return drawings


def _draw_budget(visits: Sequence[Sequence[Visit]]) -> Drawing:
    with blank() as figure:
        axes = figure.subplots()
        for index, of_method in enumerate(visits):
            color, dash = style(index)
            by_bin = [
                [visit.num_drawn for visit in of_method if visit.difficulty == place] for place in range(len(BINS))
            ]
            there = [place for place, numbers in enumerate(by_bin) if numbers]
            means = [sum(by_bin[place]) / len(by_bin[place]) for place in there]
            axes.plot(there, means, color=color, linestyle=dash, marker="o", markersize=4)
        axes.set_xticks(range(len(BINS)), BINS)
        tidy(axes, "responses drawn per prompt")
        axes.set_xlabel("pass rate of the prompt")
        axes.set_ylim(bottom=0)
        return finished(figure, "budget_by_difficulty", "responses drawn per prompt, by its pass rate")


def _draw_histogram(method: Method, visits: Sequence[Visit], index: int) -> Drawing:
    import matplotlib

    last = max(visit.step for visit in visits)
    size = math.ceil((last + 1) / MAX_STRETCHES)
    stretches = [[visit for visit in visits if visit.step // size == number] for number in range(last // size + 1)]
    shares = [
        [sum(visit.difficulty == place for visit in stretch) / max(len(stretch), 1) for stretch in stretches]
        for place in range(len(BINS))
    ]
    with blank() as figure:
        axes = figure.subplots()
        colors = matplotlib.colormaps["viridis"]
        bottom = [0.0] * len(stretches)
        starts = [number * size for number in range(len(stretches))]
        for place, label in enumerate(BINS):
            color = colors(place / (len(BINS) - 1))
            axes.bar(starts, shares[place], size * 0.94, bottom, align="edge", color=color, label=label)
            bottom = [low + share for low, share in zip(bottom, shares[place], strict=True)]
        tidy(axes, method.name)
        axes.set_xlabel("rollout steps")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(
            handles[::-1], labels[::-1], loc="outside right center", frameon=False, title="pass rate", handlelength=1
        )
        return finished(figure, f"pass_rates_{index + 1}", f"prompts by pass rate over the training: {method.name}")
