"""The tables of ``docs/studies/forecast.md``, from the study's rows and the gate of the real model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from research.benchmarks.report import DOCS, markdown
from research.studies.curves import Estimate, jackknifed
from research.studies.forecast.probes import PROBES
from research.studies.forecast.replay import UNIFORM
from research.studies.forecast.rules import BASE, FORECASTS, GROUP

FILE = DOCS / "studies" / "forecast" / "replay.json"
GATE = DOCS / "studies" / "real_model" / "gate.json"
IN_TURN = 0.1
"""Share of a step that a curriculum gives to all prompts in turn (``curriculum.revisit_ratio``)."""
RATIOS = (0.0, 1.0, 3.0)
"""Cost ratios: what training a token costs in generated ones."""
_CHOSEN_RUN = "grpo_chosen-lr1.7e-05-p32-0"

GRPO_RUNS = ("grpo_n4-lr1.7e-05-p32-100", "grpo_n4-lr1e-05-p32-100")
"""Of one seed: the same prompts at the same steps, and the same random numbers for their responses."""
CHOSEN_RUN = "grpo_chosen-lr1.7e-05-p32-0"
"""Its prompts were chosen by a forecast already."""
RESPONSES: Mapping[str, float] = {
    UNIFORM: GROUP,
    BASE: GROUP,
    **{name: responses for name, (_, responses) in PROBES.items()},
}
"""Generated ones of a group that trains."""

Rows = Sequence[Mapping[str, Any]]
Key = tuple[str, int]
"""Run and step."""
Cells = Mapping[Key, float]


def cells(rows: Rows, rule: str, figure: str, runs: Sequence[str] = GRPO_RUNS) -> Cells:
    """Return a rule's figure, ``signal`` or ``spread``, by run and step; empty where it is not told."""
    found: dict[Key, float | None] = {}
    for row in rows:
        if row["rule"] == rule and row["run"] in runs:
            found |= {(row["run"], step): value for step, value in zip(row["steps"], row[figure], strict=True)}
    return {key: value for key, value in found.items() if value is not None}


def over_steps(figure: Callable[[Sequence[Key]], float], keys: Sequence[Key]) -> Estimate:
    """Return a figure of runs and steps with its interval of 95 %, over steps.

    Runs that ask the same prompts at the same step are left out together, since they share those prompts' luck.
    """

    def of_steps(chosen: Sequence[int]) -> float:
        kept = set(chosen)
        return figure([key for key in keys if key[1] in kept])

    return jackknifed(of_steps, sorted({step for _, step in keys}))


def difference(rows: Rows, rule: str) -> Estimate:
    """Return how many points more of a rule's prompts have a signal than of those that the committed forecast takes."""
    mine, base = cells(rows, rule, "signal"), cells(rows, BASE, "signal")
    return over_steps(lambda keys: 100 * mean({key: mine[key] - base[key] for key in keys}), sorted(mine))


def mean(of: Cells) -> float:
    """Return the mean over runs and steps; not a number of nothing."""
    return float(np.mean(list(of.values()))) if of else math.nan


def _load() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text())
    return content


def found() -> str:
    """Return of every forecast the share of its prompts with a signal, run by run and against the committed one."""
    rows = _load()["rows"]
    whole, spread = mean(cells(rows, UNIFORM, "signal")), mean(cells(rows, UNIFORM, "spread"))
    lines = []
    for rule in (UNIFORM, *FORECASTS):
        by_run = [mean(cells(rows, rule, "signal", [run])) for run in (*GRPO_RUNS, CHOSEN_RUN)]
        share = mean(cells(rows, rule, "signal"))
        apart = "" if rule in (UNIFORM, BASE) else difference(rows, rule).written("+.0f")
        shares = [*by_run, share, (1 - IN_TURN) * share + IN_TURN * whole]
        times = mean(cells(rows, rule, "spread")) / spread
        lines.append([rule, *(f"{each:.0%}" for each in shares), apart, f"{times:.2f}"])
    head = ["best quarter by", "GRPO, 1.7e-5", "GRPO, 1e-5", "chosen prompts", "both GRPO runs", "with a tenth in turn"]
    return markdown([*head, "points over committed", "p (1 - p) over the mean"], lines)


def signal_between(spread: float) -> tuple[float, float]:
    """Return between which shares of groups of four have a signal, where prompts have this mean p (1 - p).

    With s = p (1 - p) the chance of a signal is 1 - p^4 - (1 - p)^4 = 4 s - 2 s^2, and E[s^2] lies between E[s]^2,
    where all prompts are alike, and E[s] / 4, where each has s = 0 or 1/4.

    Example:
        >>> signal_between(0.25), signal_between(0.1)
        ((0.875, 0.875), (0.35, 0.38))
    """
    return round(3.5 * spread, 12), round(4 * spread - 2 * spread**2, 12)


def ceiling() -> str:
    """Return what the best quarter of prompts had at the start, found by so many measured responses."""
    gate = json.loads(GATE.read_text())
    over = {f"{number} responses of each": float(ratio) for number, ratio in gate["found_over_mean"].items()}
    over["the 16 responses that count, too: too high"] = gate["best_quarter_over_mean"]
    lines = []
    for name, ratio in over.items():
        lines.append([name, f"{ratio:.2f}", _between(ratio * gate["mean_spread"])])
    return markdown(["best quarter by", "p (1 - p) over the mean", "groups of four with a signal"], lines)


def _between(spread: float) -> str:
    low, high = (f"{share:.0%}" for share in signal_between(spread))
    return low if low == high else f"{low} to {high}"


def measured() -> str:
    """Return what rules find that measure prompts first, and what a group with a signal costs them."""
    content = _load()
    rows, tokens = content["rows"], content["response_tokens"]
    uniform, lines = cells(rows, UNIFORM, "spread"), []
    spread, keys = mean(uniform), list(uniform)
    for rule, responses in RESPONSES.items():
        shown, share = cells(rows, rule, "spread"), share_of(rows, rule)(keys)
        signal = f"{share:.0%}" if cells(rows, rule, "signal") else _between(mean(shown))
        times = f"{mean(shown) / spread:.2f}" if shown else ""
        costs = ["1" if rule == BASE else dearer(rows, rule, ratio).written(".2f") for ratio in RATIOS]
        lines.append([rule, times, signal, f"{responses:g}", f"{responses * tokens / share:.0f}", *costs])
    head = ["best quarter by", "p (1 - p) over the mean", "groups with a signal", "responses generated a group"]
    head.append("generated tokens per signal")
    return markdown([*head, *(f"times the committed one's cost, ratio {ratio:g}" for ratio in RATIOS)], lines)


def share_of(rows: Rows, rule: str) -> Callable[[Sequence[Key]], float]:
    """Return a rule's share of groups with a signal as a function of runs and steps.

    Where a probe tells p (1 - p) alone, it is the middle of what that allows.
    """
    if signal := cells(rows, rule, "signal"):
        return lambda keys: mean({key: signal[key] for key in keys})
    spread = cells(rows, rule, "spread")
    return lambda keys: sum(signal_between(mean({key: spread[key] for key in keys}))) / 2


def dearer(rows: Rows, rule: str, ratio: float) -> Estimate:
    """Return how many times as much a group with a signal costs a rule, generated and trained, as the committed one.

    Args:
        rows: of the replay.
        rule: what takes the prompts.
        ratio: what training a response costs in generated ones; only groups with a signal train.
    """
    mine, base = share_of(rows, rule), share_of(rows, BASE)

    def times(keys: Sequence[Key]) -> float:
        return (RESPONSES[rule] / mine(keys) + ratio * GROUP) / (GROUP / base(keys) + ratio * GROUP)

    return over_steps(times, list(cells(rows, BASE, "signal")))


TABLES: Mapping[str, Callable[[], str]] = {
    "forecast": found,
    "forecast_measured": measured,
    "forecast_ceiling": ceiling,
}
