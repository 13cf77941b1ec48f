"""Figures of every measured checkpoint: how its scores compare with unit ones, which rules leave it least noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ada_lightning.methods.estimators.pooled_prior import fit_pooled_prior
from research.benchmarks.simulation.pass_rates import Mix
from research.studies.variance.chosen import BASE, HISTORY_ON_MODEL, ON_MODEL
from research.studies.variance.draws import NUM_SCREEN
from research.studies.variance.history import history_plans, planned_moments, rounded_leave_one_out
from research.studies.variance.measured import (
    Indices,
    Measured,
    RuleOnModel,
    alignment,
    noise_scale,
    resampled,
    rule_cost,
    rule_on_model,
)
from research.studies.variance.rules import all_rules
from research.studies.variance.update_moments import Array, UpdateMoments, update_moments

_KINDS = ("generated", "trained")
_THIRDS = ("hardest", "middle", "easiest")


def model_figures(found: Measured, screened: Sequence[int]) -> dict[str, Any]:
    """Return what ``measured.json`` holds of a checkpoint."""
    rules = _rules_on(found, screened)
    plain = unit_scores(found)
    on_unit = _rules_on(plain, screened)
    base, unit_base = rules[BASE], on_unit[BASE]
    thirds = np.array_split(np.argsort(found.rates_P, kind="stable"), 3)
    return {
        "never": found.never,
        "always": found.always,
        "scores": _scores(found, thirds),
        "alignment": _alignments(found, thirds),
        "noise_scale": {
            kind: _interval(partial(_scale, base, found, kind), found) for kind in ("share", "prompts", *_KINDS)
        },
        "rules": {
            name: {kind: _interval(partial(_ratio, rule, base, found, kind), found) for kind in _KINDS}
            | {
                f"unit_{kind}": _ratio(on_unit[name], unit_base, plain, kind, np.arange(len(found.rates_P)))
                for kind in _KINDS
            }
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
    known = {rule.name: rule for rule in all_rules()}
    at: dict[str, Callable[[Array], UpdateMoments]] = {}
    for name in ON_MODEL:
        ends = known[name].make() if name in known else rounded_leave_one_out(8)
        at[name] = partial(update_moments, ends)
    mix, plans = _fitted(screened), history_plans()
    for name in HISTORY_ON_MODEL:
        at[name] = partial(planned_moments, plans[name](mix))
    return {name: rule_on_model(moments, found) for name, moments in at.items()}


def _fitted(screened: Sequence[int]) -> Mix:
    """Return the Beta distribution that the project would fit to the screening."""
    outcomes = [(count, NUM_SCREEN) for count, number in enumerate(screened) for _ in range(number)]
    prior = fit_pooled_prior(outcomes)
    return Mix(0.0, 0.0, prior.alpha, prior.beta)


def _scores(found: Measured, thirds: Sequence[Indices]) -> dict[str, Any]:
    """Return score moments by third of the prompts, hardest first, and over all of them."""
    rows = {}
    for name, of_P in zip(("all", *_THIRDS), (np.arange(len(found.rates_P)), *thirds), strict=True):
        pooled = np.concatenate([found.positive_squares_P[of_P], found.negative_squares_P[of_P]]).mean()
        rows[name] = {
            "pass_rate": float(found.rates_P[of_P].mean()),
            "positive_square": float(found.positive_squares_P[of_P].mean()),
            "negative_square": float(found.negative_squares_P[of_P].mean()),
            "square_ratio": _interval_of(found.positive_squares_P, found.negative_squares_P, of_P),
            "positive_tokens": float(found.positive_tokens_P[of_P].mean()),
            "negative_tokens": float(found.negative_tokens_P[of_P].mean()),
            "delta_share": _interval_of(
                found.delta_square_P, (found.positive_squares_P + found.negative_squares_P) / 2, of_P
            ),
            "mean_square": float(pooled),
        }
    return rows


def _alignments(found: Measured, thirds: Sequence[Indices]) -> dict[str, Any]:
    """Return how far the gradients of different prompts agree: all, within and between the thirds; and how they differ.

    ``size of a product`` is the root mean square over pairs: how much two prompts have to do with each other, whether
    they agree or not, and the noise of the estimate.
    """
    rows: dict[str, Any] = {"all prompts": _interval(lambda of_P: alignment(found, of_P, of_P), found)}
    for first, second in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (0, 2)):
        name = f"{_THIRDS[first]} with {_THIRDS[second]}" if first != second else f"within the {_THIRDS[first]}"
        rows[name] = _interval(partial(_between, found, thirds[first], thirds[second]), found)
    rows["size of a product"] = _interval(partial(_product_size, found), found)
    return rows


def _between(found: Measured, first_P: Indices, second_P: Indices, of_P: Indices) -> float:
    """Return the agreement of two thirds as far as they are in a resample; NaN where one has no two prompts in it."""
    parts = [of_P[np.isin(of_P, third_P)] for third_P in (first_P, second_P)]
    if min(len(set(part)) for part in parts) < 2:
        return math.nan
    return alignment(found, *parts)


def _product_size(found: Measured, of_P: Indices) -> float:
    """Return the root mean square of an inner product over the mean squared length; it holds the noise of both."""
    products_PP = found.delta_products_PP[np.ix_(of_P, of_P)][of_P[:, None] != of_P[None, :]]
    return float(np.sqrt((products_PP**2).mean()) / found.delta_square_P[of_P].mean())


def _scale(rule: RuleOnModel, found: Measured, kind: str, of_P: Indices) -> float:
    return noise_scale(rule, found, of_P)[kind]


def _ratio(rule: RuleOnModel, base: RuleOnModel, found: Measured, kind: str, of_P: Indices) -> float:
    return rule_cost(rule, found, of_P)[kind] / rule_cost(base, found, of_P)[kind]


def _interval(figure: Callable[[Indices], float], found: Measured) -> list[float]:
    return list(resampled(figure, len(found.rates_P)))


def _interval_of(above_P: Array, below_P: Array, of_P: Indices) -> list[float]:
    """Return the ratio of two means over some prompts, with its interval."""
    return list(resampled(lambda of: float(above_P[of_P[of]].mean() / below_P[of_P[of]].mean()), len(of_P)))
