"""Figures of every measured checkpoint: how its scores compare with unit ones, which rules leave it least noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from functools import partial
from typing import Any

import numpy as np

from ada_lightning.methods.estimators.beta_history import fit_pooled_prior
from research.benchmarks.simulation.pass_rates import Mix
from research.studies.curves import jackknifed
from research.studies.variance.draws import NUM_SCREEN
from research.studies.variance.files import BASE, KINDS
from research.studies.variance.history import PLANS, planned_moments
from research.studies.variance.measured import (
    Indices,
    Measured,
    RuleOnModel,
    alignment,
    common_share,
    rule_cost,
    rule_on_model,
    tokens,
)
from research.studies.variance.rules import RULES
from research.studies.variance.update_moments import update_moments


def model_figures(found: Measured, screened: Sequence[int]) -> dict[str, Any]:
    """Return what ``measured.json`` holds of a checkpoint; a list is a value with its interval."""
    plain = unit_scores(found)
    rules, on_unit = _rules_on(found, screened), _rules_on(plain, screened)
    everyone = np.arange(len(found.rates_P))

    def interval(figure: Callable[[Indices], float]) -> list[float]:
        return list(astuple(jackknifed(lambda of: figure(np.array(of)), everyone.tolist())))

    def ratio_interval(figure: Callable[[Indices], float]) -> list[float]:
        found = jackknifed(lambda of: math.log(figure(np.array(of))), everyone.tolist(), back=math.exp)
        return list(astuple(found))

    def square_ratio(of_P: Indices) -> float:
        return float(found.positive_squares_P[of_P].mean() / found.negative_squares_P[of_P].mean())

    def delta_share(of_P: Indices) -> float:
        squares_P = (found.positive_squares_P[of_P] + found.negative_squares_P[of_P]) / 2
        return float(found.delta_square_P[of_P].mean() / squares_P.mean())

    of_base = tokens(rules[BASE], found, everyone)
    return {
        "never": found.never,
        "always": found.always,
        "pass_rate": float(found.rates_P.mean()),
        "positive_tokens": float(found.positive_tokens_P.mean()),
        "negative_tokens": float(found.negative_tokens_P.mean()),
        "square_ratio": ratio_interval(square_ratio),
        "delta_share": interval(delta_share),
        "alignment": interval(lambda of_P: alignment(found, of_P)),
        "common_share": interval(lambda of_P: common_share(rules[BASE], found, of_P)),
        "trained_over_generated": of_base["trained"] / of_base["generated"],
        "rules": {
            name: {kind: ratio_interval(partial(_ratio, rule, rules[BASE], found, kind)) for kind in KINDS}
            | {f"unit_{kind}": _ratio(on_unit[name], on_unit[BASE], plain, kind, everyone) for kind in KINDS}
            for name, rule in rules.items()
        },
    }


def unit_scores(found: Measured) -> Measured:
    """Return the same pass rates with the scores of the study's first part: unit norm, short and equal Delta."""
    ones_P = np.ones_like(found.rates_P)
    tiny = 1e-6
    return replace(
        found,
        delta_square_P=tiny * ones_P,
        delta_products_PP=np.full_like(found.delta_products_PP, tiny),
        positive_squares_P=ones_P,
        negative_squares_P=ones_P,
        positive_tokens_P=ones_P,
        negative_tokens_P=ones_P,
    )


def _rules_on(found: Measured, screened: Sequence[int]) -> dict[str, RuleOnModel]:
    # The Beta distribution that the project would fit to the screening.
    prior = fit_pooled_prior([(count, NUM_SCREEN) for count, number in enumerate(screened) for _ in range(number)])
    mix = Mix(0.0, 0.0, prior.alpha, prior.beta)
    at = {name: partial(update_moments, make()) for name, make in RULES.items()}
    at |= {name: partial(planned_moments, plan(mix)) for name, plan in PLANS.items()}
    return {name: rule_on_model(moments, found) for name, moments in at.items()}


def _ratio(rule: RuleOnModel, base: RuleOnModel, found: Measured, kind: str, of_P: Indices) -> float:
    return rule_cost(rule, found, of_P)[kind] / rule_cost(base, found, of_P)[kind]
