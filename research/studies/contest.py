"""Methods compared on one task from one model, several seeds each: trained, told in tables, drawn."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from research.benchmarks.report import markdown
from research.studies.curves import Estimate, Runs, difference, final_level, time_scale
from research.studies.curves_plot import Picture, plot
from research.studies.methods import GRPO, written
from research.studies.runs import Results, StudyRun, train_missing

COMPARATOR = {"generated_tokens": "grpo_n4", "trained_tokens": "grpo_n4", "seconds": "grpo_n4_4_updates"}
"""By cost, the GRPO whose whole curve the others are held against: one for all of them."""


@dataclass(frozen=True)
class Standing:
    """Where a method ends, and what it spends beside GRPO."""

    method: str
    num_seeds: int
    level: float
    """Held-out avg@4 of the last three evaluations, mean over seeds; then the lowest and the highest of them."""
    lowest: float
    highest: float
    gain: Estimate
    """Level minus that of the GRPO that ends highest."""
    scales: Mapping[str, Estimate]
    """By cost: how many times less it spends along its whole run than the comparator."""


def comparison(
    found: Mapping[str, Runs], comparator: Mapping[str, str] = COMPARATOR, grpo: Sequence[str] = GRPO
) -> list[Standing]:
    """Return how every method stands, the one with the fewest generated tokens first.

    Raises:
        ValueError: a method of ``comparator`` has no run, or none of ``grpo`` has.
    """
    if missing := [base for base in comparator.values() if base not in found]:
        raise ValueError(f"no run of {missing[0]} is done, with which the others are compared; train one first")
    if not (known := [found[name] for name in grpo if name in found]):
        raise ValueError(f"no run of {' or '.join(grpo)} is done, over which the others' gain is counted")
    highest = max(known, key=lambda runs: final_level([*runs.values()]))
    standings = []
    for method, runs in found.items():
        levels = [final_level([run]) for run in runs.values()]
        scales = {cost: time_scale(found[base], runs, cost) for cost, base in comparator.items()}
        gain = difference(highest, runs)
        standings.append(Standing(method, len(runs), fmean(levels), min(levels), max(levels), gain, scales))
    return sorted(standings, key=lambda standing: -standing.scales["generated_tokens"].value)


@dataclass(frozen=True)
class Contest:
    """A comparison."""

    name: str
    file: Path
    """Of the results."""
    runs: Callable[[int], Mapping[str, Sequence[StudyRun]]]
    """By method, for a number of seeds."""
    num_seeds: int
    picture: Path | None = None
    drawn_costs: Sequence[str] = ("generated_tokens", "seconds")
    """By which the curves are drawn."""
    title: str = ""
    """Of the picture: model with its size, and prompts."""
    rate: str = "avg@4 (held-out share right)"
    """What the curves are of."""
    shown: Sequence[str] = ()
    """Methods that are drawn in colour; all unless given."""
    unseen_seeds: Sequence[int] = ()
    """Seeds that nothing was chosen by: told apart."""
    discard_checkpoints: bool = False
    comparator: Mapping[str, str] = field(default_factory=lambda: COMPARATOR)
    """By cost, the method whose whole curve the others are held against."""
    grpo: Sequence[str] = GRPO
    """Methods of which the one that ends highest is "the best GRPO"."""
    is_closed: bool = False
    """Whether nothing more can be run, since its model is gone."""

    def results(self) -> Results:
        """Return what is known."""
        return Results(self.file, discard_checkpoints=self.discard_checkpoints)

    def known(self, num_seeds: int = 0) -> dict[str, Runs]:
        """Return the learning curves that there are, by method and seed."""
        results = self.results()
        return {
            method: {run.seed: results.row(run)["curve"] for run in runs if results.has(run)}
            for method, runs in self.runs(num_seeds or self.num_seeds).items()
        }

    def curves(self, num_seeds: int = 0) -> dict[str, Runs]:
        """Return learning curves by method and seed, of the methods that have the most seeds.

        A mean over fewer shows which seeds those were.
        """
        found = self.known(num_seeds)
        most = max(map(len, found.values()), default=0)
        return {method: runs for method, runs in found.items() if runs and len(runs) == most}

    def table(self, num_seeds: int = 0) -> str:
        """Return where the methods end, and how many times less they spend than one GRPO along the whole run.

        The GRPO that a column compares with has a 1 there.
        """
        found = self.curves(num_seeds)
        apart = [seed for seed in self.unseen_seeds if all(seed in runs for runs in found.values())]
        unseen = {method: {seed: runs[seed] for seed in apart} for method, runs in found.items()}
        rows = []
        for row in comparison(found, self.comparator, self.grpo):
            scales = [
                "1" if row.method == base else row.scales[cost].written(".2f") for cost, base in self.comparator.items()
            ]
            if apart:  # two seeds tell of no interval
                scales.append(f"{time_scale(unseen['grpo_n4'], unseen[row.method], 'generated_tokens').value:.2f}")
            level = f"{row.level:.3f} ({row.lowest:.3f} to {row.highest:.3f})"
            rows.append([written(row.method, "`"), level, row.gain.written("+.3f"), *scales, row.num_seeds])
        costs = [cost.replace("_", " ") for cost in self.comparator]
        if apart:
            costs.append(f"tokens, seeds {' and '.join(map(str, apart))} alone")
        return markdown(
            [
                *("method", f"{self.rate.partition(' ')[0]}, mean of the last three", "minus the best GRPO's"),
                *(*costs, "seeds"),
            ],
            rows,
        )

    def prices(self) -> str:
        """Return what each phase took, and what training a token costs in generated ones: means over seeds."""
        results, lines = self.results(), []
        for method, runs in self.runs(self.num_seeds).items():
            rows = [results.row(run) for run in runs if results.has(run)]
            if not rows:
                continue
            timed = [row["seconds"]["estimate"] for row in rows if "estimate" in row["seconds"]]  # not in the oldest
            seconds = [fmean(row["seconds"][phase] for row in rows) for phase in ("rollout", "update", "sync")]
            trained = fmean(row["curve"][-1]["trained_tokens"] / row["curve"][-1]["generated_tokens"] for row in rows)
            estimates = f"{fmean(timed):.0f} s" if len(timed) == len(rows) else "-"
            ratio = seconds[1] / seconds[0] / trained
            lines.append(
                [
                    written(method, "`"),
                    *(f"{each:.0f} s" for each in seconds),
                    estimates,
                    f"{trained:.0%}",
                    f"{ratio:.2f}",
                ]
            )
        names = ["rollouts", "updates", "weight syncs", "estimates", "tokens trained", "cost ratio"]
        return markdown(["method", *names], lines)

    def draw(self, num_seeds: int = 0) -> None:
        """Draw the learning curves."""
        if self.picture is not None:
            found = self.curves(num_seeds)
            most = max(map(len, found.values()), default=0)
            shown = self.shown or list(found)
            title = ", ".join(filter(None, (self.title, f"{most} seeds")))
            plot(found, self.picture, Picture(title, self.rate, shown, self.drawn_costs, self.comparator))


def main(
    description: str,
    contests: Sequence[Contest],
    arguments: Sequence[str] | None = None,
    *,
    prepare: Callable[[], None] = lambda: None,
) -> None:
    """Train what is missing, a seed of everything before the next, then print the tables and draw."""
    names = [contest.name for contest in contests]
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="comparisons")
    parser.add_argument("--methods", nargs="+", help="methods to train; all unless given")
    parser.add_argument("--seeds", type=int, default=0, help="runs of each; as many as the pages have unless given")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--report-only", action="store_true", help="use the runs that are done, train nothing")
    options = parser.parse_args(arguments)
    chosen = [contest for contest in contests if contest.name in options.only]
    try:
        for contest in chosen:
            if not (options.report_only or contest.is_closed):
                prepare()
                _train(contest, options.methods, options.seeds, options.jobs)
        for contest in chosen:
            print(f"{contest.name}\n{contest.table(options.seeds)}")
            contest.draw(options.seeds)
    except ValueError as error:
        sys.exit(f"error: {error}")


def _train(contest: Contest, methods: Sequence[str] | None, num_seeds: int, num_jobs: int) -> None:
    runs = contest.runs(num_seeds or contest.num_seeds)
    if unknown := [method for method in methods or () if method not in runs]:
        raise ValueError(f"--methods {' '.join(unknown)}: {contest.name} compares {', '.join(runs)}")
    groups = [group for method, group in runs.items() if not methods or method in methods]
    order = [run for of_seed in zip(*groups, strict=True) for run in of_seed]
    train_missing(order, contest.results(), num_jobs=num_jobs)
