"""What rules yield on prompts of many pass rates, and what uniform groups yield for the same number of responses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from research.benchmarks.simulation.pass_rates import MIXES, Mix
from research.studies.group_signal.best import Bounds, best_with_known_rates, best_without_history
from research.studies.group_signal.outcome import Outcome, outcome
from research.studies.group_signal.paper import CURVES
from research.studies.group_signal.posterior_exit import posterior_exit
from research.studies.group_signal.published_mix import published_mix
from research.studies.group_signal.rates import KnownRates, MixRates, PassRates
from research.studies.group_signal.rules import BALANCE, BUDGETS, GROUP_SIZES, RULES, balance_up_to
from research.studies.group_signal.uniform import UniformGroups, uniform_groups

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
_QUANTILES = 1000


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
            str(size): {
                "all_right": rates.mean(beside.groups.all_right_RN[:, size - 1]),
                "all_wrong": rates.mean(beside.groups.all_wrong_RN[:, size - 1]),
                "signal": beside.groups.signal_at(size),
            }
            for size in GROUP_SIZES
        },
        "rules": {name: beside.row(found) for name, found in all_outcomes(rates).items()},
        "budgets": {str(n_max): beside.row(outcome(balance_up_to(n_max), rates)) for n_max in BUDGETS},
    }


def studied_mixes() -> dict[str, Mix]:
    """Return every mix by its name; those of the paper's pass@k curves are fitted now."""
    return {
        **{f"paper, {model}: pass@k": published_mix(model)[0] for model in CURVES},
        **{f"paper, {name}": MIXES[name] for name in STEPS},
        **BETAS,
    }


def figures_by_mix(mixes: Mapping[str, Mix]) -> dict[str, Any]:
    """Compute mixes by name."""
    return {name: figures_of_mix(mix) for name, mix in mixes.items()}


def bounds_of_mix(mix: Mix) -> Bounds:
    """Compute the most signals that any sampling reaches on a mix; quantiles stand for the known pass rates."""
    between = 1 - mix.never - mix.always
    quantiles = beta.ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES, mix.alpha, mix.beta)
    weights = [mix.never, mix.always, *[between / _QUANTILES] * _QUANTILES]
    known = KnownRates([0.0, 1.0, *quantiles], weights)
    return Bounds(best_without_history(MixRates(mix)), best_with_known_rates(known))


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
