"""The tables of the pages on learning curves, from the results of the runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from research.benchmarks.report import markdown
from research.studies.field.compare import PARTS, curves, part_runs
from research.studies.field.fresh import fresh_curves, fresh_runs, fresh_scales
from research.studies.field.hard import CONTESTANTS, found_outcomes, selected
from research.studies.field.levers import ALL_LEVERS, all_effects
from research.studies.field.reach import Curve, Estimate, Runs, final_level
from research.studies.field.results import Results
from research.studies.field.setting import FRESH, HARD, LEVERS, RUNS, SMOLLM2, SMOLLM2_TUNING, TUNING
from research.studies.field.standing import (
    COMPARATOR,
    GRPO,
    BinOutcome,
    Standing,
    comparison,
    milestones,
    signed,
    time_scales,
    times,
)
from research.studies.field.tune import NOISE, SEED, SEED_ON_FIRST, NotTunedError, taken, tuned
from research.studies.runs import StudyRun
from research.studies.smollm2.compare import task_runs, with_every_seed
from research.studies.smollm2.tune import SEED as SMOLLM2_SEED
from research.studies.smollm2.tune import TASKS


def tuning(file: Path, seed: int) -> str:
    """Return the level of every method by learning rate and prompts per update; what was taken in bold."""
    _must_exist(file)
    grids: dict[str, dict[tuple[float, int], Curve]] = {}
    for row in map(json.loads, file.read_bytes().splitlines()):
        if row["seed"] != seed:
            continue
        rest, prompts, _ = row["name"].rsplit("-", 2)  # grpo_n4-lr3e-05-p8-100, before it perhaps a task
        named, lr = rest.split("-lr")
        method = named.split("-")[-1]
        grids.setdefault(method, {})[float(lr), int(prompts[1:])] = row["curve"]
    settings = sorted({key for found in grids.values() for key in found})
    noise = 0.0 if seed == SEED_ON_FIRST else NOISE
    ordered = sorted(grids, key=lambda method: -max(final_level([curve]) for curve in grids[method].values()))
    head = ["method", *(f"{lr:g}, {prompts}" for lr, prompts in settings)]
    rows = [[f"`{method}`", *_levels(grids[method], settings, noise=noise)] for method in ordered]
    return markdown(head, rows)


def _levels(
    found: Mapping[tuple[float, int], Curve], settings: Sequence[tuple[float, int]], *, noise: float
) -> list[str]:
    best = taken(found, noise=noise)
    texts = {key: f"{final_level([curve]):.3f}" for key, curve in found.items()}
    return [f"**{texts[key]}**" if key == best else texts.get(key, "-") for key in settings]


@dataclass(frozen=True)
class Contest:
    """Methods that were compared on one task from one model."""

    file: Path
    """Of the results."""
    runs: Callable[[], Mapping[str, Sequence[StudyRun]]]
    has_every_seed: bool = False
    """Whether only methods with the most seeds are shown."""

    def curves(self) -> dict[str, Runs]:
        """Return learning curves by method and seed."""
        found = curves(self._runs(), Results(self.file))
        return with_every_seed(found) if self.has_every_seed else found

    def standings(self) -> str:
        """Return where the methods end, and what they spend beside the best GRPO."""
        return markdown(_STANDING, [_standing(row) for row in comparison(self.curves())])

    def scale(self) -> str:
        """Return how many times less the methods spend along the whole run than one GRPO."""
        scales = time_scales(self.curves())
        return _scales({method: (of["generated_tokens"], of["seconds"]) for method, of in scales.items()})

    def savings(self) -> str:
        """Return what the methods spend to reach levels on GRPO's way."""
        return _milestones(self.curves())

    def prices(self) -> str:
        """Return where the seconds went."""
        return _prices(self._runs(), Results(self.file))

    def _runs(self) -> Mapping[str, Sequence[StudyRun]]:
        _must_exist(self.file)
        return self.runs()


CONTESTS = {
    **{part: Contest(RUNS, partial(part_runs, part)) for part in PARTS},
    "fresh": Contest(FRESH, fresh_runs),
    **{task: Contest(SMOLLM2, partial(task_runs, task), has_every_seed=True) for task in TASKS},
}


def field(part: str) -> str:
    """Return where the methods of a part of the comparison end, with their settings."""

    def settings(method: str) -> str:
        best = tuned(method, Results(TUNING), on_first=part == "first")
        return f"{best.lr:g}, {best.prompts}"

    rows = [[*_standing(row), settings(row.method)] for row in comparison(CONTESTS[part].curves())]
    return markdown([*_STANDING, "learning rate, prompts"], rows)


def fresh_scale() -> str:
    """Return the time scales for prompts that are seen once, and without the seeds that were looked at."""
    _must_exist(FRESH)
    return _scales(fresh_scales(), "tokens, the last two seeds alone")


def _scales(found: Mapping[str, tuple[Estimate, ...]], *more: str) -> str:
    bases = (*COMPARATOR.values(), *("" for _ in more))
    head = ["method", *(f"{_COSTS[cost]}, beside `{base}`" for cost, base in COMPARATOR.items()), *more]
    ordered = sorted(found.items(), key=lambda item: -item[1][0].value)
    rows = [
        [f"`{method}`", *("1" if method == base else times(each) for base, each in zip(bases, estimates, strict=True))]
        for method, estimates in ordered
    ]
    return markdown(head, rows)


def _milestones(found: Mapping[str, Runs]) -> str:
    reached = milestones(found)
    names = {"generated_tokens": "tokens", "seconds": "seconds"}
    head = ["method", *(f"{names[cost]} to {mark.level:.3f} ({mark.share:.2g})" for cost in names for mark in reached)]
    ordered = sorted(found, key=lambda method: -reached[-1].savings[method]["generated_tokens"].value)
    rows = [
        [f"`{method}`", *(_times(method, mark.savings[method][cost]) for cost in names for mark in reached)]
        for method in ordered
    ]
    return markdown(head, rows)


def _prices(runs_by_method: Mapping[str, Sequence[StudyRun]], results: Results) -> str:
    """Return what each phase took, and what training a token costs in generated ones: means over seeds."""
    lines = []
    for method, runs in runs_by_method.items():
        rows = [results.row(run) for run in runs if results.has(run)]
        if not rows:
            continue
        timed = [row["seconds"]["estimate"] for row in rows if "estimate" in row["seconds"]]  # not in the oldest
        seconds = {phase: fmean(row["seconds"][phase] for row in rows) for phase in ("rollout", "update", "sync")}
        trained = fmean(row["curve"][-1]["trained_tokens"] / row["curve"][-1]["generated_tokens"] for row in rows)
        price = seconds["update"] / seconds["rollout"] / trained
        lines.append(
            [
                f"`{method}`",
                *(f"{seconds[phase]:.0f} s" for phase in seconds),
                f"{fmean(timed):.0f} s" if len(timed) == len(rows) else "-",
                f"{trained:.0%}",
                f"{price:.2f}",
            ]
        )
    names = ["rollouts", "updates", "weight syncs", "estimates", "tokens trained", "price of training one"]
    return markdown(["method", *names], lines)


def fresh_seeds() -> str:
    """Return where each run on prompts that are seen once ends, by seed: nothing was chosen on the last two."""
    _must_exist(FRESH)
    found = fresh_curves()
    seeds = sorted({seed for runs in found.values() for seed in runs})
    ordered = sorted(found.items(), key=lambda item: -final_level(list(item[1].values())))
    rows = [
        [f"`{method}`", *(f"{final_level([runs[seed]]):.3f}" if seed in runs else "-" for seed in seeds)]
        for method, runs in ordered
    ]
    return markdown(["method", *(f"seed {seed}" for seed in seeds)], rows)


_COSTS = {"generated_tokens": "generated tokens", "trained_tokens": "trained tokens", "seconds": "seconds"}
_STANDING = [
    "method",
    "held-out at the end",
    "over the best GRPO",
    *(f"times fewer {cost}" for cost in _COSTS.values()),
    "seeds",
]


def _standing(row: Standing) -> list[Any]:
    level = f"{row.level:.3f} ({row.lowest:.3f} to {row.highest:.3f})"
    costs = (_times(row.method, row.savings[cost]) for cost in _COSTS)
    return [f"`{row.method}`", level, signed(row.gain), *costs, row.num_seeds]


def _times(method: str, estimate: Estimate) -> str:
    """Write a ratio; that of GRPO, which is part of what it is measured by, has no interval of its own."""
    return times(replace(estimate, low=math.nan) if method in GRPO else estimate)


def levers() -> str:
    """Return what each change to a method did."""
    _must_exist(LEVERS)
    bases = dict.fromkeys(lever.base for lever in ALL_LEVERS)
    rows = [
        [
            f"`{row.base}`",
            row.text,
            f"{row.level:.3f}",
            signed(row.gain),
            times(row.saving),
            f"{row.trained:.0%}",
            row.num_seeds,
        ]
        for row in all_effects(_tuned_ones(bases))
    ]
    head = ["method", "change", "held-out at the end", "difference", "times fewer tokens", "tokens trained", "seeds"]
    return markdown(head, rows)


def hard_prompts() -> str:
    """Return the improvement by difficulty."""
    _must_exist(HARD / "heldout.jsonl")
    found = found_outcomes()
    methods = list(dict.fromkeys(method for outcome in found for method in outcome.gains))
    head = ["starting pass rate", "problems", "before", *(f"`{method}`" for method in methods)]
    rows = [
        [outcome.name, outcome.num_problems, f"{outcome.before:.3f}", *(_gain(outcome, method) for method in methods)]
        for outcome in found
    ]
    summary = selected()
    note = f"{summary['num_selected']} of {summary['num_prompts']} problems were selected."
    return f"{markdown(head, rows)}\n{note}\n"


def _gain(outcome: BinOutcome, method: str) -> str:
    lead = f"; over `{CONTESTANTS[0]}` {signed(outcome.leads[method])}" if method != CONTESTANTS[0] else ""
    return f"{signed(outcome.gains[method])}{lead}"


def _tuned_ones(methods: Iterable[str]) -> list[str]:
    """Return those methods that are tuned; the others have no runs either."""
    results = Results(TUNING)
    found = []
    for method in methods:
        with suppress(NotTunedError):
            tuned(method, results)
            found.append(method)
    return found


def _must_exist(file: Path) -> None:
    if not file.exists():
        raise FileNotFoundError(2, "no figures yet", str(file))


TABLES: Mapping[str, Callable[[], str]] = {
    "field_tuning_first": partial(tuning, TUNING, SEED_ON_FIRST),
    "field_tuning_second": partial(tuning, TUNING, SEED),
    "smollm2_tuning": partial(tuning, SMOLLM2_TUNING, SMOLLM2_SEED),
    **{f"field_{part}": partial(field, part) for part in PARTS},
    **{f"field_{part}_savings": CONTESTS[part].savings for part in (*PARTS, "fresh")},
    **{f"field_{part}_scale": CONTESTS[part].scale for part in PARTS},
    "field_fresh": CONTESTS["fresh"].standings,
    "field_fresh_scale": fresh_scale,
    "field_fresh_seeds": fresh_seeds,
    "field_levers": levers,
    "field_hard": hard_prompts,
    "field_prices": CONTESTS["second"].prices,
    "field_fresh_prices": CONTESTS["fresh"].prices,
    **{f"smollm2_{task}_prices": CONTESTS[task].prices for task in TASKS},
    **{f"smollm2_{task}_savings": CONTESTS[task].savings for task in TASKS},
    **{f"smollm2_{task}": CONTESTS[task].standings for task in TASKS},
}
