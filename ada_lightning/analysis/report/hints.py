"""What hints did, from a run's ``prompts.csv``: prompts reached, by level and over the steps, and solved later."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ada_lightning.analysis.report.drawing import Drawing, blank, finished, style, tidy
from ada_lightning.analysis.report.method import Method
from ada_lightning.run.run_dir import RunDir

QUARTERS = ("1/4", "2/4", "3/4", "4/4")
"""Of a solution's levels, rounded up: 4/4 is the last beginning that could be given."""


@dataclass
class Reached:
    """Prompts of one run that had a hint."""

    first: dict[str, int] = field(default_factory=dict)
    """Step of each prompt's first hint."""
    solved: dict[str, int] = field(default_factory=dict)
    """Step of its first right response without a hint after that."""
    num_steps: int = 0
    prompts: list[set[str]] = field(default_factory=lambda: [set() for _ in QUARTERS])
    """Those that had a hint of this quarter."""
    right: list[int] = field(default_factory=lambda: [0] * len(QUARTERS))
    total: list[int] = field(default_factory=lambda: [0] * len(QUARTERS))
    """Responses with such a hint, and right ones among them."""

    def over_steps(self) -> NDArray[np.int64]:
        """Prompts reached and solved later, by the end of each step. Shape ``(steps, 2)``."""
        steps = np.arange(self.num_steps)[:, None]
        both = (list(self.first.values()), list(self.solved.values()))
        return np.stack([(np.array(each, dtype=np.int64) <= steps).sum(axis=1) for each in both], axis=1)


def read_hints(folder: Path) -> Reached:
    """Read a run's prompt log; nothing is reached where it has no hinted group.

    Raises:
        ValueError: a value is no number.
    """
    path = RunDir(folder).prompts_csv
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    rows = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))  # a kill cuts the last line at worst
    found = Reached()
    try:
        for row in rows:
            step, prompt_id, level = int(row["step"]), row.get("prompt_id") or "", int(row.get("hint") or 0)
            found.num_steps = max(found.num_steps, step + 1)
            num_positive = int(row.get("num_positive") or 0)
            if level and row["num_sampled"] == "0":
                continue  # what the policy wrote as its hint was refused, or nothing could be graded
            if level:
                bare = prompt_id.removesuffix(f"#{level}")
                quarter = min(-(-4 * level // max(int(row["num_hints"]), 1)), 4) - 1
                found.first.setdefault(bare, step)
                found.prompts[quarter].add(bare)
                found.right[quarter] += num_positive
                found.total[quarter] += int(row["num_sampled"])
            elif num_positive and found.first.get(prompt_id, step) < step:
                found.solved.setdefault(prompt_id, step)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}, line {rows.line_num} cannot be read: {error}") from error
    return found


def draw_hints(methods: Sequence[Method]) -> list[Drawing]:
    """Draw prompts reached over the steps and by level; nothing where no run gave a hint."""
    every = [(index, [read_hints(run.folder) for run in method.runs]) for index, method in enumerate(methods)]
    known = [(index, found) for index, runs in every if (found := [run for run in runs if run.first])]
    if not known:
        return []
    return [_draw_over_steps(known), _draw_by_level(known)]


def _draw_over_steps(known: Sequence[tuple[int, Sequence[Reached]]]) -> Drawing:
    with blank() as figure:
        axes = figure.subplots()
        for index, runs in known:
            shortest = min(run.num_steps for run in runs)
            reached, solved = np.mean([run.over_steps()[:shortest] for run in runs], axis=0).T
            color, _ = style(index)
            axes.plot(reached, color=color, label="had a hint")
            axes.plot(solved, color=color, linestyle=":", label="solved without one later")
        tidy(axes, "prompts that hints reached")
        axes.set_xlabel("rollout steps")
        axes.set_ylim(bottom=0)
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles[:2], labels[:2], frameon=False, fontsize=8)
        return finished(figure, "hints_over_steps", "prompts that had a hint, and those solved without one later")


def _draw_by_level(known: Sequence[tuple[int, Sequence[Reached]]]) -> Drawing:
    with blank() as figure:
        axes = figure.subplots()
        for index, runs in known:
            right, total = (np.sum([getattr(run, name) for run in runs], axis=0) for name in ("right", "total"))
            numbers = np.sum([[len(each) for each in run.prompts] for run in runs], axis=0)
            there = np.flatnonzero(total)
            color, dash = style(index)
            rates = right[there] / total[there]
            axes.plot(there, rates, color=color, linestyle=dash, marker="o", markersize=4)
            for place, rate in zip(there, rates, strict=True):
                axes.annotate(
                    f"{numbers[place]} prompts", (place, rate), (0, 5), textcoords="offset points", fontsize=7
                )
        axes.set_xticks(range(len(QUARTERS)), QUARTERS)
        axes.set_xlim(-0.4, len(QUARTERS) - 0.4)
        axes.set_ylim(0, 1.08)
        axes.set_xlabel("share of the solution's levels that was given")
        tidy(axes, "pass rate with a hint")
        return finished(figure, "hints_by_level", "pass rate with a hint, by the share of the solution that was given")
