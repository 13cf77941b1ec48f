"""Settings of every method by a grid of runs, all with one seed that no comparison uses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from research.benchmarks.report import markdown
from research.studies.curves import Curve, final_level
from research.studies.methods import SETTINGS_OF, Settings, written
from research.studies.runs import Results, StudyRun, train_missing


class NotTunedError(ValueError):
    """Runs of a method's grid are missing."""


@dataclass(frozen=True)
class Tuning:
    """Grids of settings, and the runs with them."""

    file: Path
    """Of the results."""
    command: str
    """Which trains the grids."""
    grids: Mapping[str, Sequence[Settings]]
    """By method."""
    run: Callable[[str, Settings], StudyRun]
    noise: float = 0.0
    """Levels nearer than this to the highest cannot be told from it: of these settings the quickest is taken."""
    prepare: Callable[[], None] = lambda: None
    """Makes what runs need."""
    discard_checkpoints: bool = False

    def results(self) -> Results:
        """Return what is known."""
        return Results(self.file, discard_checkpoints=self.discard_checkpoints)

    def tuned(self, method: str) -> Settings:
        """Return the settings of a method, or of that which it takes them from."""
        source = method if method in self.grids else SETTINGS_OF.get(method, method)
        results = self.results()
        runs = {settings: self.run(source, settings) for settings in self.grids[source]}
        missing = [run.name for run in runs.values() if not results.has(run)]
        if missing:
            raise NotTunedError(f"{source} is not tuned yet: {', '.join(missing)}; run {self.command}")
        return taken({settings: results.row(run)["curve"] for settings, run in runs.items()}, noise=self.noise)

    def table(self) -> str:
        """Return the level of every method by its settings; what was taken in bold."""
        results = self.results()
        curves: dict[str, dict[Settings, Curve]] = {
            method: {each: results.row(run)["curve"] for each in grid if results.has(run := self.run(method, each))}
            for method, grid in self.grids.items()
        }
        found = {method: rows for method, rows in curves.items() if rows}
        if not found:
            return "No figures yet.\n"
        columns = sorted({settings for rows in found.values() for settings in rows})
        lines = []
        for method in sorted(found, key=lambda name: -max(final_level([curve]) for curve in found[name].values())):
            texts = {settings: f"{final_level([curve]):.3f}" for settings, curve in found[method].items()}
            best = taken(found[method], noise=self.noise)
            texts[best] = f"**{texts[best]}**"
            lines.append([written(method, "`"), *(texts.get(settings, "-") for settings in columns)])
        return markdown(["method", *(f"{lr:g}, {prompts}" for lr, prompts in columns)], lines)

    def summary(self) -> str:
        """Return what was taken of every method, between the lowest and the highest level of its grid."""
        results, lines = self.results(), []
        for method, grid in self.grids.items():
            runs = {each: self.run(method, each) for each in grid}
            curves = {each: results.row(run)["curve"] for each, run in runs.items() if results.has(run)}
            if not curves:
                continue
            best = taken(curves, noise=self.noise)
            levels = {each: final_level([curve]) for each, curve in curves.items()}
            ends = (levels[best], max(levels.values()), min(levels.values()))
            cells = [f"{best.lr:g}", best.prompts, *(f"{level:.3f}" for level in ends), len(curves)]
            lines.append([written(method, "`"), *cells])
        columns = ["learning rate", "prompts per update", "avg@4", "highest", "lowest", "settings tried"]
        return markdown(["method", *columns], lines) if lines else "No figures yet.\n"

    def main(self, description: str, arguments: Sequence[str] | None = None) -> None:
        """Train what is missing, then print the table."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--methods", nargs="+", choices=self.grids, default=list(self.grids), help="to tune")
        parser.add_argument("--jobs", type=int, default=2, help="runs at once")
        options = parser.parse_args(arguments)
        runs = [self.run(method, settings) for method in options.methods for settings in self.grids[method]]
        try:
            results = self.results()
            if not all(results.has(run) for run in runs):
                self.prepare()
                train_missing(runs, results, num_jobs=options.jobs)
        except ValueError as error:
            sys.exit(f"error: {error}")
        print(self.table())


def taken(curves: Mapping[Settings, Curve], *, noise: float) -> Settings:
    """Return the settings whose run ends highest, or of those as near as ``noise`` to it the quickest."""
    levels = {settings: final_level([curve]) for settings, curve in curves.items()}
    if noise == 0:  # the first of the grid where two are level
        return max(levels, key=lambda settings: levels[settings])
    good = [settings for settings, level in levels.items() if level >= max(levels.values()) - noise]
    return min(good, key=lambda settings: curves[settings][-1]["seconds"])
