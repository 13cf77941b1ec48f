"""Figures at single pass rates."""

from __future__ import annotations

from typing import Any

from research.studies.group_signal.outcome import outcome
from research.studies.group_signal.rates import KnownRates
from research.studies.group_signal.rules import RULES
from research.studies.group_signal.uniform import uniform_groups

PASS_RATES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Uniform groups and quotas of as many right as wrong ones see p and 1 - p alike."""
ASYMMETRIC = (0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99)
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)


def figures_by_rate() -> dict[str, Any]:
    """Compute what depends on the pass rate alone, as primitives."""
    groups = uniform_groups(KnownRates(PASS_RATES), max(SIZES))
    rates = KnownRates(ASYMMETRIC)
    outcomes = {name: outcome(rule, rates) for name, rule in RULES.items()}
    return {
        "no_signal": [
            {"pass_rate": rate, **{str(size): 1.0 - float(groups.signal_by_size[row, size - 1]) for size in SIZES}}
            for row, rate in enumerate(PASS_RATES)
        ],
        "rules": [
            {
                "pass_rate": rate,
                "rule": name,
                "responses": float(found.responses_R[row]),
                "all_right": float(found.all_right_R[row]),
                "all_wrong": float(found.all_wrong_R[row]),
            }
            for name, found in outcomes.items()
            for row, rate in enumerate(ASYMMETRIC)
        ],
    }
