"""Figures at single pass rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from research.benchmarks.simulation.pass_rates import MIXES, Mix
from research.studies.group_signal.outcome import Outcome, UniformGroups, outcome, uniform_groups
from research.studies.group_signal.rates import KnownRates, MixRates, PassRates
from research.studies.group_signal.rules import FITTED, GROUP_SIZES, RULES

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


STEPS = ("step 50", "step 200", "step 400", "step 600", "7B, step 200")
"""Of the mixes fitted to sample counts of the paper's Seq-balance runs
(research/benchmarks/simulation/pass_rates.py)."""
BETAS = {
    "wide": MIXES["wide"],
    "even": Mix(0.0, 0.0, 1.0, 1.0),
    "mostly hard": Mix(0.0, 0.0, 0.5, 3.0),
    "extremes": Mix(0.0, 0.0, 0.5, 0.4),
}
"""Beta(1/2, 1/2), (1, 1), (1/2, 3), (1/2, 2/5)."""
LARGEST = 256
"""Of uniform groups."""


def all_outcomes(rates: PassRates) -> dict[str, Outcome]:
    """What every rule of the study yields, by its name."""
    return {name: outcome(rule, rates) for name, rule in RULES.items()}


def figures_of_mix(mix: Mix) -> dict[str, Any]:
    """Compute every rule on a mix beside uniform groups, as primitives."""
    rates = MixRates(mix)
    beside = _Beside(uniform_groups(rates, LARGEST))
    return {
        "mix": [mix.never, mix.always, mix.alpha, mix.beta],
        "uniform": {
            str(size): {
                "all_right": rates.mean(beside.groups.all_right_RN[:, size - 1]),
                "all_wrong": rates.mean(beside.groups.all_wrong_RN[:, size - 1]),
                "signal": beside.groups.signal_at(size),
            }
            for size in GROUP_SIZES
        },
        "rules": {name: beside.row(found) for name, found in all_outcomes(rates).items()},
    }


def studied_mixes() -> dict[str, Mix]:
    """Return every mix by its name."""
    return {
        **{f"paper, {model}: pass@k": mix for model, mix in FITTED.items()},
        **{f"paper, {name}": MIXES[name] for name in STEPS},
        **BETAS,
    }


def figures_by_mix(mixes: Mapping[str, Mix]) -> dict[str, Any]:
    """Compute mixes by name."""
    return {name: figures_of_mix(mix) for name, mix in mixes.items()}


@dataclass(frozen=True)
class _Beside:
    groups: UniformGroups

    def row(self, found: Outcome) -> dict[str, float | None]:
        size = self.groups.size_for(found.signal)
        return {
            "responses": found.responses,
            "signal": found.signal,
            "balanced": found.balanced,
            "signals_per_1000": found.signals_per_1000,
            "uniform_signal": self.groups.signal_at(found.responses),
            "uniform_balanced": self.groups.balanced_at(found.responses),
            "uniform_size": None if math.isinf(size) else size,
        }
