from __future__ import annotations

import random

import numpy as np
import pytest
from scipy.stats import beta

from ada_lightning.core.records import Belief
from ada_lightning.methods.curriculum import ExpectedUsefulness, Learnability
from tests.unit.methods.curriculum.histories import ids, prompts

RNG = random.Random(0)


def ranked(*beliefs, usefulness=None):
    return ExpectedUsefulness(usefulness=usefulness or Learnability()).rank(
        [Belief(*belief) for belief in beliefs], RNG
    )


class Values:
    """p (1 - p); keeps the pass rates it was asked about."""

    def __call__(self, pass_rates):
        self.asked = list(pass_rates)
        return Learnability()(pass_rates)


def test_candidates_are_sorted_by_the_exact_expectation():
    """E[p (1 - p)] of Beta(a, b) is a b / ((a + b) (a + b + 1))."""
    generator = np.random.default_rng(0)
    beliefs = generator.uniform(0.3, 12.0, size=(200, 2))
    exact = beliefs.prod(1) / (beliefs.sum(1) * (beliefs.sum(1) + 1))
    found = np.array(ranked(*beliefs.tolist()))
    assert (np.diff(exact[found]) < 0.002).all()
    assert exact[found[:50]].mean() > exact.mean() + 0.03


@pytest.mark.parametrize("belief", [(0.3, 0.2), (1.0, 1.0), (0.05, 3.0), (40.0, 60.0), (2.0, 0.4)])
def test_expectations_are_those_of_the_belief(belief):
    values = Values()
    ranked(belief, usefulness=values)
    rates = np.array(values.asked)
    exact = beta(*belief).expect(lambda rate: rate * (1 - rate))
    assert np.mean(rates * (1 - rates)) == pytest.approx(exact, abs=1e-3)


def test_doubt_counts_against_a_prompt_and_equal_ones_keep_their_order():
    assert ranked((0.5, 0.5), (10.0, 10.0), (0.5, 0.5), (2.0, 2.0)) == [1, 3, 0, 2]


def test_nothing_is_drawn():
    curriculum = ExpectedUsefulness(usefulness=Learnability(), revisit_ratio=0)
    known = {f"p{index}": Belief(1.0 + index, 5.0) for index in range(16)}

    def chosen(seed):
        options = {"step": 0, "seed": seed, "recall": lambda asked: [known[prompt.prompt_id] for prompt in asked]}
        return set(ids(curriculum.choose(prompts(16), 4, **options)))

    assert chosen(0) == chosen(1)  # all sixteen are candidates


def test_the_figure_is_what_was_expected_and_not_the_usefulness_of_the_mean():
    """Nothing known of a prompt, Beta(0.09, 0.09), is a mean of 1/2, and hardly ever a pass rate near it."""
    figures = ExpectedUsefulness(usefulness=Learnability()).figures([Belief(0.09, 0.09), Belief(3.0, 3.0)])
    exact = [a * a / (2 * a * (2 * a + 1)) for a in (0.09, 3.0)]
    assert figures == {"usefulness": pytest.approx(sum(exact) / 2, abs=1e-3)}
    assert ExpectedUsefulness(usefulness=Learnability()).figures([]) == {"usefulness": 0.0}
    assert (
        "prompts with the highest expected Learnability come first"
        in ExpectedUsefulness(usefulness=Learnability()).caveat()
    )
