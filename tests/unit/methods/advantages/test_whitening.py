from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.methods.functional import whitened


def test_it_is_the_unbiased_z_score():
    values = [0.3, -0.1, 2.0, 0.7, 0.7]
    expected = (np.array(values) - np.mean(values)) / (np.std(values, ddof=1) + 1e-4)
    assert whitened(values, [1.0] * 5, epsilon=1e-4) == pytest.approx(expected.tolist(), rel=1e-12)


def test_weights_count_values_more_than_once():
    values, weights = [0.3, -0.1, 2.0], [2, 5, 3]
    repeated = np.repeat(values, weights)
    expected = (np.array(values) - repeated.mean()) / repeated.std(ddof=1)
    assert whitened(values, weights, epsilon=0.0) == pytest.approx(expected.tolist(), rel=1e-12)


@pytest.mark.parametrize("values", [[], [3.0], [0.5, 0.5, 0.5], [0.1] * 7])
def test_without_spread_there_is_nothing(values):
    assert whitened(values, [1.0] * len(values), epsilon=1e-8) == [0.0] * len(values)


def test_rounding_of_a_mean_does_not_give_zeros_a_value():
    """Centred in float32: the mean of the mixed group is 1e-8 and not 0."""
    result = whitened([2 / 3 + 3e-8, -1 / 3, -1 / 3, 0.0, 0.0], [1.0] * 5, epsilon=1e-8)
    assert result[3:] == [0.0, 0.0]
    assert whitened([1.0, 0.0, 0.0], [1.0] * 3, epsilon=1e-8)[1] < -0.5  # a mean that is there is subtracted
