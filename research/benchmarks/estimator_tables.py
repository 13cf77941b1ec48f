"""Tables of ``docs/estimators.md``, made from ``docs/estimator_bias.json`` and ``docs/giving_up.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from research.benchmarks.report import DOCS, markdown

RATES = (0.1, 0.2, 0.8)
"""Pass rates of the columns; few, so that a table fits on a phone."""
AGREES = 1e-9
"""What a run calls exact agrees to this (``tests/unit/analysis/statement/test_enumeration.py``)."""
_EXACT_LOG = " / exact log p"
_LEFT_OUT = "1/sqrt(p)"
"""What nobody publishes with a balanced group; the file has it."""


def supported() -> str:
    """Return how much of 1/p the exact estimator of log p follows: its factor on grad p, times p."""
    found = _load("estimator_bias")
    rates = (0.02, 0.1, 0.5)
    rows = []
    for name, row in found["methods"].items():
        if name.endswith(_EXACT_LOG):
            shares = [row["multiplier"][at] * rate for rate, at in zip(rates, _places(found, rates), strict=True)]
            rows.append([name.removesuffix(_EXACT_LOG), *(f"{share:.0%}" for share in shares)])
    return markdown(["sampler", *_heads(rates)], rows)


def multiplier_exact() -> str:
    """Return the factor on grad p of the exact estimators, and the largest relative distance from ``f'(p)``."""

    def off(row: Mapping[str, Any]) -> str:
        pairs = zip(row["multiplier"], row["wanted"], strict=True)
        most = max(abs(value / wanted - 1) for value, wanted in pairs)
        return f"{most:.0e}" if most > AGREES else f"below {AGREES:.0e}".replace("e-0", "e-")

    return _by_rate(
        lambda row, at: f"{row['multiplier'][at]:.3g}", rates=(0.02, 0.2), is_exact=True, more={"off by at most": off}
    )


def multiplier() -> str:
    """Return the factor on grad p of the other estimators, and over ``f'(p)``."""
    return _by_rate(
        lambda row, at: f"{row['multiplier'][at]:.3g} ({row['multiplier'][at] / row['wanted'][at]:.2f})", is_exact=False
    )


def noise_per_signal() -> str:
    """Return the noise of an update times the responses it took, over its squared factor."""
    return _by_rate(lambda row, at: f"{row['noise_per_signal'][at]:.3g}", rates=(0.02, 0.2, 0.8))


def giving_up() -> str:
    """Return what the posterior exit saves, by the share of the run's rate below which a prompt is given up."""
    rows = [
        [
            f"{row['mix'].partition(': ')[2]}, {row['price']:g}",
            f"{row['responses_per_prompt']:.1f}",
            f"{row['completed_per_1000']:.0f}",
            f"{row['completed_ratio']:.0%}",
        ]
        for row in _load("giving_up")["rows"]
    ]
    return markdown(["pass rates, share", "responses per prompt", "complete, per 1,000 responses", "complete"], rows)


def _by_rate(
    form: Callable[[Mapping[str, Any], int], str],
    *,
    rates: Sequence[float] = RATES,
    is_exact: bool | None = None,
    more: Mapping[str, Callable[[Mapping[str, Any]], str]] | None = None,
) -> str:
    """Return a figure of the methods by pass rate.

    Args:
        form: of a method's row and the place of a pass rate.
        rates: pass rates of the columns.
        is_exact: only methods that claim to be exact, or only those that do not; None: all.
        more: further columns, of a method's row.
    """
    found, more = _load("estimator_bias"), more or {}
    places = _places(found, rates)
    rows = [
        [name, *(form(row, at) for at in places), *(cell(row) for cell in more.values())]
        for name, row in found["methods"].items()
        if _LEFT_OUT not in name and is_exact in (None, row["exact"])
    ]
    return markdown(["sampler / estimator", *_heads(rates), *more], rows)


def _places(found: Mapping[str, Any], rates: Sequence[float]) -> list[int]:
    return [found["pass_rates"].index(rate) for rate in rates]


def _heads(rates: Sequence[float]) -> list[str]:
    return [f"p = {rate:g}" for rate in rates]


def _load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DOCS / f"{name}.json").read_text())
    return content


ESTIMATOR_TABLES: dict[str, Callable[[], str]] = {
    "supported": supported,
    "multiplier_exact": multiplier_exact,
    "multiplier": multiplier,
    "noise_per_signal": noise_per_signal,
    "giving_up": giving_up,
}
