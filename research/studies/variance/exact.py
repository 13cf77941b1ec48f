"""Figures of every rule for scores of unit norm, by mix of pass rates."""

from __future__ import annotations

from typing import Any

from research.benchmarks.simulation.pass_rates import MIXES, Mix
from research.studies.variance.files import MIX_NAMES
from research.studies.variance.history import PLANS, planned_moments
from research.studies.variance.rules import RULES
from research.studies.variance.update_moments import (
    UpdateMoments,
    chosen_bound,
    generated_bound,
    trained_bound,
    update_moments,
)


def exact_figures() -> dict[str, Any]:
    """Return what ``docs/studies/gradient_variance/exact.json`` holds: bounds of each mix, then every rule by mix."""
    mixes = {name: MIXES[name] for name in MIX_NAMES}
    rules = {}
    for rule, make in RULES.items():
        ends = make()
        rules[rule] = {name: figures_of_mix(update_moments(ends, mix.grid()), mix) for name, mix in mixes.items()}
    for rule, plan in PLANS.items():
        rules[rule] = {name: figures_of_mix(planned_moments(plan(mix), mix.grid()), mix) for name, mix in mixes.items()}
    return {"bounds": {name: mix_bounds(mix) for name, mix in mixes.items()}, "rules": rules}


def mix_bounds(mix: Mix) -> dict[str, float]:
    """Return the least variance times cost that a mix allows, in several senses.

    ``known_p``: all prompts alike, one response each, the pass rate as the baseline. ``neyman``: responses in
    proportion to ``sqrt(p q)``, still the gradient of the mean pass rate. ``best ...``: the share of the prompts
    nearest to 1/2, whatever objective that is. ``trained``: responses trained instead of generated.
    """
    spread_P = mix.grid() * (1.0 - mix.grid())
    return {
        "known_p": chosen_bound(mix, 1.0),
        "neyman": generated_bound(spread_P, mix),
        "trained": trained_bound(spread_P, mix),
        **{f"best {share:g}": chosen_bound(mix, share) for share in (0.5, 0.25, 0.1)},
    }


def figures_of_mix(moments: UpdateMoments, mix: Mix) -> dict[str, float]:
    """Return a rule's figures over a mix.

    Returns:
        Relative variance times the responses generated (``generated_cost``) and trained (``trained_cost``), in units of
        a score's second moment over ``|Delta|^2``; both over the bound of the rule's own objective
        (``..._over_bound``).
    """
    variance = mix.expect(moments.noise) / mix.expect(moments.signal_P) ** 2
    generated, trained = variance * mix.expect(moments.drawn), variance * mix.expect(moments.kept)
    return {
        "generated_cost": generated,
        "trained_cost": trained,
        "generated_over_bound": generated / generated_bound(moments.signal_P, mix),
        "trained_over_bound": trained / trained_bound(moments.signal_P, mix),
    }
