"""What rules yield on prompts of many pass rates, and what uniform groups yield for the same number of responses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.simulation.pass_rates import MIXES, Mix
from studies.group_signal.best import Bounds, best_with_known_rates, best_without_history
from studies.group_signal.outcome import Outcome, outcome
from studies.group_signal.posterior_exit import posterior_exit
from studies.group_signal.rates import KnownRates, MixRates, PassRates
from studies.group_signal.rules import BALANCE, BUDGETS, GROUP_SIZES, RULES, balance_up_to
from studies.group_signal.uniform import UniformGroups, uniform_groups

STUDIED = {
    **{f"paper, {name}": mix for name, mix in MIXES.items() if name in ("step 50", "step 200", "step 400", "step 600")},
    "paper, 7B, step 200": MIXES["7B, step 200"],
    "wide": MIXES["wide"],
    "even": Mix(0.0, 0.0, 1.0, 1.0),
    "mostly hard": Mix(0.0, 0.0, 0.5, 3.0),
    "extremes": Mix(0.0, 0.0, 0.5, 0.4),
}
"""Mixes fitted to the paper's runs (benchmarks/simulation/pass_rates.py), and Beta distributions: (1/2, 1/2), (1, 1),
(1/2, 3), (1/2, 2/5)."""
LARGEST = 256


def all_outcomes(rates: PassRates) -> dict[str, Outcome]:
    """What every rule of the study yields, by its name."""
    found = {name: outcome(rule, rates) for name, rule in RULES.items()}
    first, second = posterior_exit(BALANCE, rates)
    return {**found, "posterior exit, first visit": first, "posterior exit, second visit": second}


def figures_of_mix(mix: Mix) -> dict[str, Any]:
    """Compute every rule on a mix beside uniform groups, as primitives."""
    rates = MixRates(mix)
    beside = _Beside(uniform_groups(rates, LARGEST), bounds_of_mix(mix))
    return {
        "mix": [mix.never, mix.always, mix.alpha, mix.beta],
        "uniform": {
            str(size): {"signal": beside.groups.signal_at(size), "balanced": beside.groups.balanced_at(size)}
            for size in GROUP_SIZES
        },
        "rules": {name: beside.row(found) for name, found in all_outcomes(rates).items()},
        "budgets": {str(n_max): beside.row(outcome(balance_up_to(n_max), rates)) for n_max in BUDGETS},
    }


def figures_by_mix(mixes: Mapping[str, Mix] = STUDIED) -> dict[str, Any]:
    """Compute all mixes."""
    return {name: figures_of_mix(mix) for name, mix in mixes.items()}


def bounds_of_mix(mix: Mix) -> Bounds:
    """Compute the most signals that any sampling reaches on a mix; known pass rates are 1,000 quantiles."""
    rates = KnownRates(mix.rates(1000, seed=0))
    return Bounds(best_without_history(MixRates(mix)), best_with_known_rates(rates))


@dataclass(frozen=True)
class _Beside:
    groups: UniformGroups
    bounds: Bounds

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
            **self.bounds.at(found.responses),
        }
