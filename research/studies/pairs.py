"""Pairs of runs over several tasks: trained pair by pair, and told only when the last one is there.

A pair is one seed, with which every arm of a task runs. All tasks have a pair before any has the next. So a study that
is stopped has as many pairs of each, and nobody can stop it when a figure pleases.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.benchmarks.report import markdown
from research.studies.curves import TOKENS, Estimate, LogScale, Runs, common_seeds, jackknifed, later, time_scale
from research.studies.runs import Results, StudyRun, train_missing

GRPO, AUTO = "GRPO", "auto"
"""Arms that every task has."""
CHOSEN = 2.0
"""Of ``curriculum/mode``: most prompts are chosen."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """One way to train."""

    run: Callable[[int], StudyRun]
    """Of a seed."""
    before: Callable[[int], None] = lambda seed: None
    """Makes what the run of a seed needs."""
    spent: Callable[[int, Row], float] = lambda seed, row: 0.0
    """Tokens that are counted before the first update, of a seed and the row of its run."""
    pairs: int = 0
    """How many it has; 0: as many as the study."""


@dataclass(frozen=True)
class Task:
    """Prompts of one kind, and who runs on them."""

    title: str
    arms: Mapping[str, Arm]
    best: str = GRPO
    """The fixed method that was best by what was known before; GRPO where choosing was not expected to pay."""


Judge = Callable[[Task, Mapping[str, Runs]], str]
"""Says what all pairs of a task decide of ``auto``."""


@dataclass(frozen=True)
class PairStudy:
    """Tasks with the same seeds, and the file of their rows."""

    file: Path
    seeds: Sequence[int]
    tasks: Mapping[str, Task]
    judge: Judge
    prepare: Callable[[], None] = lambda: None
    discard_checkpoints: bool = False

    def results(self) -> Results:
        """Return what is known."""
        return Results(self.file, discard_checkpoints=self.discard_checkpoints)

    def seeds_of(self, arm: Arm) -> Sequence[int]:
        """Return the seeds that an arm runs with."""
        return self.seeds[: arm.pairs or None]

    def train(self, tasks: Sequence[str], num_pairs: int, num_workers: int) -> None:
        """Train what is missing of the first pairs, pair by pair.

        Args:
            tasks: names.
            num_pairs: how many, from the first.
            num_workers: runs at once, with one thread each.
        """
        results = self.results()
        for number, seed in enumerate(self.seeds[:num_pairs], start=1):
            missing: dict[str, StudyRun] = {}
            for arm in (arm for name in tasks for arm in self.tasks[name].arms.values()):
                if seed in self.seeds_of(arm) and not results.has(run := arm.run(seed)):
                    if not missing:
                        self.prepare()
                    arm.before(seed)
                    missing[run.name] = run
            train_missing(missing.values(), results, num_jobs=num_workers, num_threads=1)
            print(f"pair {number} of {len(self.seeds)}: done", flush=True)

    def rows(self, task: Task) -> dict[str, dict[int, Row]]:
        """Return what is known of a task, by arm and seed."""
        results = self.results()
        found: dict[str, dict[int, Row]] = {}
        for name, arm in task.arms.items():
            runs = {seed: arm.run(seed) for seed in self.seeds_of(arm)}
            found[name] = {seed: results.row(run) for seed, run in runs.items() if results.has(run)}
        return found

    def curves(self, task: Task) -> dict[str, Runs]:
        """Return learning curves, with what was spent before the first update where an arm counts it."""
        return {
            name: {seed: later(row["curve"], task.arms[name].spent(seed, row)) for seed, row in of_arm.items()}
            for name, of_arm in self.rows(task).items()
        }

    def num_pairs(self, task: Task) -> int:
        """Return how many pairs are whole: all arms that have this seed have run with it."""
        rows = self.rows(task)
        return sum(
            all(seed in rows[name] for name, arm in task.arms.items() if seed in self.seeds_of(arm))
            for seed in self.seeds
        )

    def tables(self, name: str) -> dict[str, Callable[[], str]]:
        """Return what makes the tables, by the names that they have in pages."""
        return {name: self.table, f"{name}_progress": self.progress_table, f"{name}_chosen": self.chosen_table}

    def progress_table(self) -> str:
        """Return how many pairs there are. It says nothing of how they came out."""
        rows = [[task.title, f"{self.num_pairs(task)} of {len(self.seeds)}"] for task in self.tasks.values()]
        return markdown(["task", "pairs so far"], rows)

    def table(self) -> str:
        """Return the figures of the tasks that have all their pairs; a sentence while there is none."""
        rows = []
        for task in self.tasks.values():
            if self.num_pairs(task) < len(self.seeds):
                continue
            curves = self.curves(task)
            for name, runs in curves.items():
                factors = [
                    "1" if name == GRPO else time_scale(curves[GRPO], runs, cost).written(".2f")
                    for cost in (TOKENS, "trained_tokens", "seconds")
                ]
                decided = self.judge(task, curves) if name == AUTO else ""
                rows.append([task.title, _named(name), len(common_seeds(curves[GRPO], runs)), *factors, decided])
        if not rows:
            return "No figures yet: no task has all its pairs.\n"
        costs = ["generated tokens", "trained tokens", "seconds"]
        return markdown(["task", "arm", "pairs", *(f"fewer {cost}" for cost in costs), "decided"], rows)

    def chosen_table(self) -> str:
        """Return where ``auto`` chose, of the tasks that have all their pairs."""
        rows = []
        for task in self.tasks.values():
            if self.num_pairs(task) == len(self.seeds):
                shares = [share_chosen(row) for row in self.rows(task)[AUTO].values()]
                ever = sum(share > 0 for share in shares)
                rows.append([task.title, f"{ever} of {len(shares)}", f"{sum(shares) / len(shares):.0%}"])
        if not rows:
            return "No figures yet: no task has all its pairs.\n"
        return markdown(["task", "runs that ever chose", "updates after a choice, mean"], rows)

    def main(
        self,
        description: str,
        arguments: Sequence[str] | None = None,
        *,
        parents: Sequence[argparse.ArgumentParser] = (),
    ) -> None:
        """Train what is missing, and print the tables; ``parents`` have options of the program itself."""
        parser = argparse.ArgumentParser(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter, parents=[*parents]
        )
        parser.add_argument("--pairs", type=int, default=len(self.seeds), help="how many, from the first")
        parser.add_argument("--tasks", nargs="+", choices=self.tasks, default=list(self.tasks))
        parser.add_argument("--workers", type=int, default=1, help="runs at once, each on one core")
        parser.add_argument("--report-only", action="store_true", help="use the runs that are done, train nothing")
        options = parser.parse_args(arguments)
        if not 1 <= options.pairs <= len(self.seeds):
            parser.error(f"--pairs must be 1 to {len(self.seeds)}; got {options.pairs}")
        if options.workers < 1:
            parser.error(f"--workers must be at least 1; got {options.workers}")
        if not options.report_only:
            self.train(options.tasks, options.pairs, options.workers)
        print(self.progress_table(), self.table(), self.chosen_table(), sep="\n")


def _named(arm: str) -> str:
    return f"`{arm}`" if arm == AUTO else arm


def share_chosen(row: Row) -> float:
    """Return the share of a run's steps in which ``auto`` chose most prompts.

    Example:
        >>> share_chosen({"modes": [[0, 1.0], [6, 2.0]], "curve": [{"updates": 8}]})
        0.25
    """
    modes, end = row["modes"], row["curve"][-1]["updates"]
    ends = [step for step, _ in modes[1:]] + [end]
    return float(sum(after - step for (step, mode), after in zip(modes, ends, strict=True) if mode == CHOSEN) / end)


def relative(grpo: Runs, auto: Runs, best: Runs) -> Estimate:
    """Return the factor of ``auto`` over that of another arm, both in generated tokens against GRPO."""
    of_auto, of_best = LogScale(grpo, auto, TOKENS), LogScale(grpo, best, TOKENS)

    def difference(seeds: Sequence[int]) -> float:
        return of_auto(seeds) - of_best(seeds)

    return jackknifed(difference, common_seeds(grpo, auto, best), back=math.exp)
