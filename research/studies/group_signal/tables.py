"""The tables of ``docs/studies/signal_loss.md``, from its JSON files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from research.benchmarks.report import markdown
from research.studies.group_signal.figures import SIZES
from research.studies.group_signal.rules import CURVES, FOLDER, RULES
from research.studies.group_signal.rules import SIZES as PUBLISHED_SIZES

_PAPER = {"untrained": "base", "trained": "after RL"}


def load(name: str) -> Any:
    """Figures of one of the study's files."""
    return json.loads((FOLDER / f"{name}.json").read_text())["figures"]


def _no_signal() -> str:
    rows = [
        (f"{row['pass_rate']:g}", *(_percent(row[str(size)]) for size in SIZES)) for row in load("by_rate")["no_signal"]
    ]
    return markdown(["p or 1 - p", *(f"n = {size}" for size in SIZES)], rows)


def _rules() -> str:
    found = load("by_rate")["rules"]
    rows = []
    for rate in dict.fromkeys(row["pass_rate"] for row in found):
        by_rule = {row["rule"]: row for row in found if row["pass_rate"] == rate}
        rows.append(
            (
                f"{rate:g}",
                _percent(rate**4 + (1 - rate) ** 4),
                *(
                    f"{by_rule[name]['responses']:.1f}: "
                    f"{_percent(by_rule[name]['all_right'] + by_rule[name]['all_wrong'])}"
                    for name in RULES
                ),
            )
        )
    return markdown(["p", "uniform, 4", *RULES], rows)


def _mixes() -> str:
    rows = []
    for name, found in load("by_mix").items():
        row, small = found["rules"]["Seq-balance, blocks of 4"], found["uniform"]["4"]
        rows.append(
            (
                name,
                f"{row['responses']:.1f}",
                f"{32 / row['responses']:.1f}",
                f"{_percent(row['signal'])} ({_percent(row['uniform_signal'])})",
                _points(row["signal"] - row["uniform_signal"]),
                f"{_percent(row['balanced'])} ({_percent(row['uniform_balanced'])})",
                f"{row['signals_per_1000']:.0f} ({1000 * small['signal'] / 4:.0f})",
            )
        )
    head = [
        "pass rates",
        "responses",
        "groups of 32 over them",
        "signal (groups of as many)",
        "lead, points",
        "2 right and 2 wrong (groups)",
        "signals per 1,000 (groups of 4)",
    ]
    return markdown(head, rows)


def _mixes_rules() -> str:
    rows = []
    for name in ("paper, after RL: pass@k", "paper, step 50", "paper, 7B, step 200", "wide"):
        for rule, row in load("by_mix")[name]["rules"].items():
            rows.append(
                (
                    name,
                    rule,
                    f"{row['responses']:.1f}",
                    f"{_percent(row['signal'])} ({_percent(row['uniform_signal'])})",
                    _points(row["signal"] - row["uniform_signal"]),
                    f"{_percent(row['balanced'])} ({_percent(row['uniform_balanced'])})",
                    f"{row['signals_per_1000']:.0f}",
                    "more than 256" if row["uniform_size"] is None else f"{row['uniform_size']:.1f}",
                )
            )
    head = [
        "pass rates",
        "rule",
        "responses",
        "signal (groups of as many)",
        "lead, points",
        "2 right and 2 wrong (groups)",
        "signals per 1,000",
        "n of groups with as much signal",
    ]
    return markdown(head, rows)


def _measured() -> str:
    found = load("measured")
    rows = []
    for model, figures in found.items():
        published = CURVES[_PAPER[model]]
        for size, passed in figures["curves"]["pass"].items():
            place = PUBLISHED_SIZES.index(int(size))
            wrong, right = (figures["curves"][part][size] for part in ("all_wrong", "all_right"))
            rows.append(
                (
                    model,
                    size,
                    _interval(passed),
                    _interval(wrong),
                    _interval(right),
                    _percent(published["pass"][place]),
                    _percent(published["all_right"][place]),
                )
            )
    head = ["model", "n", "pass@n", "all wrong", "all right", "paper: pass@n", "paper: all right"]
    return markdown(head, rows)


def _measured_rules() -> str:
    rows = []
    for model, figures in load("measured").items():
        for name in RULES:
            row = figures["rules"][name]
            rows.append(
                (
                    model,
                    name,
                    f"{row['responses']['mean']:.1f}",
                    _interval(row["signal"]),
                    _percent(row["uniform_signal"]["mean"]),
                    _points_interval(row["lead_signal"]),
                    _points_interval(row["lead_balanced"]),
                    f"{row['signals_per_1000']['mean']:.0f} [{row['signals_per_1000']['low']:.0f}, "
                    f"{row['signals_per_1000']['high']:.0f}]",
                )
            )
    head = [
        "model",
        "rule",
        "responses",
        "signal",
        "uniform, as many responses",
        "lead, points",
        "lead in 2 right, 2 wrong, points",
        "signals per 1,000",
    ]
    return markdown(head, rows)


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent < 0.05 or percent > 99.95 else f"{percent:.1f} %"


def _interval(found: Mapping[str, float]) -> str:
    return f"{_percent(found['mean'])} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"


def _points(share: float) -> str:
    return f"{100 * share:+.1f}"


def _points_interval(found: Mapping[str, float]) -> str:
    return f"{_points(found['mean'])} [{_points(found['low'])}, {_points(found['high'])}]"


TABLES: dict[str, Callable[[], str]] = {
    "signal_no_signal": _no_signal,
    "signal_rules": _rules,
    "signal_mixes": _mixes,
    "signal_mixes_rules": _mixes_rules,
    "signal_measured": _measured,
    "signal_measured_rules": _measured_rules,
}
