"""The tables of ``docs/studies/gradient_variance.md``, from the study's JSON files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from research.benchmarks.report import markdown
from research.studies.variance.files import BASE, KINDS, MIX_NAMES, load

_MAIN = (
    "GRPO, n = 4",
    "GRPO, n = 16",
    "Seq-balance, 2+2 kept, official",
    "screen 4, then 20, RLOO (SPEED)",
    "VIP",
    "1 response, baseline from history",
    "best quarter by history, 1 response",
)
"""Rules of the first table."""


def bounds() -> str:
    """Return the least costs of each mix, over that of GRPO with n = 8."""
    found = load("exact")
    rows = []
    for name, least in found["bounds"].items():
        generated, trained = (found["rules"][BASE][name][f"{kind}_cost"] for kind in KINDS)
        parts = [least[key] / generated for key in ("known_p", "neyman", "best 0.5", "best 0.25", "best 0.1")]
        rows.append([name, f"{generated:.2f}", *(f"{part:.2f}" for part in parts), f"{least['trained'] / trained:.2f}"])
    of_p = ["p known, all alike", "Neyman", "best half", "best quarter", "best tenth"]
    return markdown(["pass rates", BASE, *of_p, "rarer class, per trained response"], rows)


def rules() -> str:
    """Return the costs of every rule over that of GRPO with n = 8, in brackets over the bound of its own objective."""
    found = load("exact")["rules"]

    def cell(rule: str, mix: str, kind: str) -> str:
        own = found[rule][mix]
        return f"{own[f'{kind}_cost'] / found[BASE][mix][f'{kind}_cost']:.2f} ({own[f'{kind}_over_bound']:.2f})"

    columns = [(mix, kind) for mix in MIX_NAMES for kind in KINDS]
    rows = [[rule, *(cell(rule, *column) for column in columns)] for rule in found]
    return markdown(["rule", *(f"{mix}: {kind}" for mix, kind in columns)], rows)


def checkpoints() -> str:
    """Return how the scores of each checkpoint compare with unit ones, and how its prompts' gradients agree."""
    rows = []
    for checkpoint, row in _measured().items():
        _, _, most = row["common_share"]
        rows.append(
            [
                checkpoint,
                f"{row['never']:.0%}, {row['always']:.0%}",
                f"{row['pass_rate']:.2f}",
                f"{row['positive_tokens']:.0f}, {row['negative_tokens']:.0f}",
                _within(row["square_ratio"]),
                _within(row["delta_share"]),
                _within(row["alignment"]),
                f"{1.0 / most - 1.0:,.0f}",
            ]
        )
    head = [
        "checkpoint",
        "never, always right in 16",
        "pass rate",
        "tokens, right and wrong",
        "right over wrong",
        "length of Delta",
        "cosine of prompts",
        "noise scale, prompts, at least",
    ]
    return markdown(head, rows)


def on_model() -> str:
    """Return the costs of the rules with each checkpoint's own moments, in tokens, and those of unit scores."""
    found = _measured()
    columns = [(checkpoint, kind) for checkpoint in found for kind in KINDS]
    rows = []
    for name in next(iter(found.values()))["rules"]:
        cells = []
        for checkpoint, kind in columns:
            row = found[checkpoint]["rules"][name]
            cells += [_within(row[kind]), f"{row[f'unit_{kind}']:.2f}"]
        rows.append([name, *cells])
    head = [part for checkpoint, kind in columns for part in (f"{checkpoint}: {kind}", "unit scores")]
    return markdown(["rule", *head], rows)


def _measured() -> dict[str, Any]:
    found: dict[str, Any] = load("measured")["checkpoints"]
    return found


def _within(interval: Sequence[float]) -> str:
    value, low, high = interval
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def main_figures() -> str:
    """Return what some rules cost in generated responses: exact where pass rates are wide, measured on checkpoints."""
    exact, found = load("exact")["rules"], _measured()
    rows = []
    for rule in _MAIN:
        cost = exact[rule]["wide"]["generated_cost"] / exact[BASE]["wide"]["generated_cost"]
        rows.append([rule, f"{cost:.2f}", *(_within(row["rules"][rule]["generated"]) for row in found.values())])
    return markdown(["generated, next to GRPO, n = 8", "exact, wide", *found], rows)


TABLES: dict[str, Callable[[], str]] = {
    "variance_main": main_figures,
    "variance_bounds": bounds,
    "variance_rules": rules,
    "variance_checkpoints": checkpoints,
    "variance_on_model": on_model,
}
