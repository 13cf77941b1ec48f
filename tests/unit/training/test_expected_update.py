"""Sampler, commits, selection and estimator together, against exact sums: 8,000 prompts through the real collector."""

from __future__ import annotations

import pytest

from research.benchmarks.estimator_bias import all_cases, deviation_limit, deviations
from research.benchmarks.expected_update import ExactUpdates

CASES = {case.method.name: case for case in all_cases()}
ONE_OF_EACH = [
    "balance / exact log p",
    "balance / exact logit(p)/2 - p",
    "balance / stratified log p, PathCountingRate",
    "balance / official",
    "balance, blocks of 8 / official x 1/p",
    "pos / exact log p",
    "uniform 4 / GRPO",
    "uniform 4 / RLOO",
    "uniform 16 / exact log p",
    "balance, cut off at 12 / exact log p",
    "balance, posterior exit, unseen / exact log p",
    "balance, posterior exit, hopeless / exact log p",
]


def test_the_official_rule_multiplies_by_difficulty_and_the_explicit_weight_doubles_it():
    """Reference section 6.1, blocks of 8."""
    plain = ExactUpdates(CASES["balance, blocks of 8 / official"].method)
    doubled = ExactUpdates(CASES["balance, blocks of 8 / official x 1/p"].method)
    for rate, factor in ((0.02, 7.2), (0.05, 5.9), (0.1, 3.9), (0.2, 2.0), (0.5, 1.0), (0.8, 2.0), (0.95, 5.9)):
        assert plain.at(rate).multiplier == pytest.approx(factor, abs=0.051)  # the reference rounds to one decimal
    for rate, factor in ((0.02, 169), (0.05, 97), (0.1, 41), (0.2, 11)):
        assert doubled.at(rate).multiplier == pytest.approx(factor, abs=0.51)  # and here to whole numbers


@pytest.mark.long
def test_8000_prompts_through_the_collector_agree_with_the_sums():
    """Eight samplers, four pass rates, 250 prompts each; the limit is for all cells together, in standard errors.

    ``python -m research.benchmarks.estimator_bias --simulate 20000`` takes more.

    Positives finish last, so a decision on whatever happens to be finished would show.
    """
    scores = deviations([CASES[name] for name in ONE_OF_EACH], prompts_per_rate=250)
    limit = deviation_limit(len(scores))
    assert {cell: score for cell, score in scores.items() if abs(score) > limit} == {}
