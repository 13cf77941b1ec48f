"""Figures of every rule for scores of unit norm: by mix of pass rates and by pass rate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from research.benchmarks.simulation.pass_rates import MIXES, Mix
from research.studies.variance.history import history_plans, planned_moments, rounded_leave_one_out
from research.studies.variance.rules import Rule, all_rules
from research.studies.variance.update_moments import (
    Array,
    UpdateMoments,
    chosen_bound,
    generated_bound,
    trained_bound,
    update_moments,
)

RATES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
SHARES = (0.5, 0.25, 0.1)
ROUNDED_SIZES = (4, 8, 16, 32)
LENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Squared lengths of Delta, for scores of unit norm."""


def exact_figures() -> dict[str, Any]:
    """Return what ``docs/studies/gradient_variance/exact.json`` holds: bounds of each mix, then every rule."""
    return {
        "pass_rates": list(RATES),
        "bounds": {name: mix_bounds(mix) for name, mix in MIXES.items()},
        "rules": [_figures(rule) for rule in [*all_rules(), *_rounded()]],
        "history": {
            name: {
                mix_name: figures_of_mix(planned_moments(make(mix), mix.grid()), mix) for mix_name, mix in MIXES.items()
            }
            for name, make in history_plans().items()
        },
    }


def mix_bounds(mix: Mix) -> dict[str, float]:
    """Return the least variance times cost that a mix allows, in several senses.

    ``known_p``: all prompts alike, one response each, the pass rate as the baseline. ``neyman``: responses in
    proportion to ``sqrt(p q)``, still the gradient of the mean pass rate. ``log_neyman``: the same for log p, of pass
    rates of at least 1/64. ``best ...``: the share of the prompts nearest to 1/2, whatever objective that is.
    ``trained``: responses trained instead of generated.
    """
    rates_P = mix.grid()
    spread_P = rates_P * (1.0 - rates_P)
    return {
        "known_p": chosen_bound(mix, 1.0),
        "neyman": generated_bound(spread_P, mix),
        "log_neyman": generated_bound(np.where(rates_P >= 1 / 64, 1.0 - rates_P, 0.0), mix),
        "trained": trained_bound(spread_P, mix),
        **{f"best {share:g}": chosen_bound(mix, share) for share in SHARES},
    }


def figures_of_mix(moments: UpdateMoments, mix: Mix) -> dict[str, Any]:
    """Return a rule's figures over a mix.

    Returns:
        ``generated`` and ``trained`` responses per prompt; relative variance times either (``generated_cost``,
        ``trained_cost``), in units of a score's second moment over ``|Delta|^2``; these over the bound of the rule's
        own objective (``..._over_bound``); the generated cost where Delta is not short beside a score, so that a
        prompt's own gradient adds to the spread between prompts (``at_lengths``).
    """
    signal = mix.expect(moments.signal_P)
    variance = mix.expect(moments.noise) / signal**2
    generated, trained = mix.expect(moments.drawn), mix.expect(moments.kept)
    return {
        "generated": generated,
        "trained": trained,
        "generated_cost": variance * generated,
        "trained_cost": variance * trained,
        "generated_over_bound": variance * generated / generated_bound(moments.signal_P, mix),
        "trained_over_bound": variance * trained / trained_bound(moments.signal_P, mix),
        "at_lengths": [generated * _second_moment(moments, mix, length) / signal**2 for length in LENGTHS],
    }


def figures_by_rate(moments: UpdateMoments, rates_P: Array) -> dict[str, list[float]]:
    """Return by pass rate: the factor on grad p, responses, and variance times cost over the prompt's own bound."""
    fails_P = 1.0 - rates_P
    squared_P = moments.signal_P**2
    return {
        "multiplier": list(moments.signal_P / (rates_P * fails_P)),
        "generated": list(moments.drawn),
        "trained": list(moments.kept),
        "generated_over_bound": list(moments.noise * moments.drawn * rates_P * fails_P / squared_P),
        "trained_over_bound": list(moments.noise * moments.kept * np.maximum(rates_P, fails_P) ** 2 / squared_P),
    }


def by_name(figures: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rules of :func:`exact_figures` by ``sampler / kept / estimator``."""
    return {f"{row['sampler']} / {row['kept']} / {row['estimator']}": row for row in figures["rules"]}


def _figures(rule: Rule) -> dict[str, Any]:
    ends = rule.make()
    return {
        "sampler": rule.sampler,
        "kept": rule.kept,
        "estimator": rule.estimator,
        "has_own_objective": rule.has_own_objective,
        "by_mix": {name: figures_of_mix(update_moments(ends, mix.grid()), mix) for name, mix in MIXES.items()},
        "by_rate": figures_by_rate(update_moments(ends, np.array(RATES)), np.array(RATES)),
    }


def _rounded() -> list[Rule]:
    return [
        Rule(f"uniform {size}", "rarer class", "rounded baseline", partial(rounded_leave_one_out, size))
        for size in ROUNDED_SIZES
    ]


def _second_moment(moments: UpdateMoments, mix: Mix, length: float) -> float:
    """Return the mean ``E|g|^2`` over the mix for scores of unit norm and a Delta of squared length ``length``."""
    rates_P = mix.grid()
    return mix.expect(
        length * moments.signal_square_P
        + (1.0 - (1.0 - rates_P) ** 2 * length) * moments.positive_noise_P
        + (1.0 - rates_P**2 * length) * moments.negative_noise_P
    )
