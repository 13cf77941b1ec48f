from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from ada_lightning.analysis.evaluation.sign_flip import sign_flip_p_value


def by_definition(differences):
    sums = [abs(np.dot(signs, differences)) for signs in product((1, -1), repeat=len(differences))]
    return np.mean([total >= abs(sum(differences)) - 1e-12 for total in sums])


def test_few_prompts_are_counted_exactly():
    generator = np.random.default_rng(0)
    for size in (1, 3, 8):
        differences = generator.integers(-4, 5, size) / 8
        expected = by_definition(differences)
        assert sign_flip_p_value(differences, seed=0) == pytest.approx(expected, abs=1e-12)


def test_many_prompts_are_drawn():
    """14 prompts: exact by enumeration; drawn with 10,000 flips, within four standard errors of a share."""
    differences = np.random.default_rng(1).normal(0.1, 0.5, 14)
    exact = by_definition(differences)
    assert 0.01 < exact < 0.5
    drawn = sign_flip_p_value(differences, seed=0, num_flips=10_000)
    assert drawn == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 10_000) ** 0.5 + 1e-4)


def test_p_values_are_uniform_where_models_are_equal():
    """1,000 pairs of equal models: the number at or below 0.1 is binomial; the bounds fail once in 10,000 times.

    A p-value of a discrete statistic may be a little conservative: 0.08 is the lowest share allowed for.
    """
    generator = np.random.default_rng(2)
    small = 0
    for seed in range(1000):
        pass_rates = generator.beta(0.5, 0.5, 40)
        differences = (generator.binomial(8, pass_rates) - generator.binomial(8, pass_rates)) / 8
        small += sign_flip_p_value(differences, seed=seed, num_flips=400) <= 0.1
    assert binom.ppf(1e-4, 1000, 0.08) <= small <= binom.ppf(1 - 1e-4, 1000, 0.1)


def test_the_ends():
    assert sign_flip_p_value(np.zeros(5), seed=0) == 1.0
    assert sign_flip_p_value(np.ones(40), seed=0, num_flips=999) == 1 / 1000  # never 0
    assert sign_flip_p_value(np.array([0.5, -0.5]), seed=0) == 1.0
