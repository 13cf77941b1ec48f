from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.analysis.statement.expected_weight import expected_weights
from ada_lightning.core.stopping import FixedRule
from ada_lightning.methods.advantages import MaxRlAdvantage
from ada_lightning.methods.selection import AllSelection
from tests.builders import assigned, make_group


def test_by_hand():
    """1 of 4: (1 - 1/4) / (1/4) = 3 and -1; ragged: 2 of 3 in the next group."""
    groups = make_group([1.0, 0.0, 0.0, 0.0]), make_group([1.0, 1.0, 0.0])
    expected = np.array([3.0, -1.0, -1.0, -1.0, 0.5, 0.5, -1.0])
    assert assigned(MaxRlAdvantage(), *groups) == pytest.approx(expected)


@pytest.mark.parametrize("rewards", [[0.0, 0.0], [1.0, 1.0], [1.0], [0.0], [-1.0, 0.0], [-1.0, 1.0]])
def test_without_a_positive_mean_or_without_signal_there_is_nothing(rewards):
    assert assigned(MaxRlAdvantage(), make_group(rewards)).tolist() == [0.0] * len(rewards)


@pytest.mark.parametrize("size", [2, 4, 9])
def test_it_follows_log_p_as_far_as_the_group_can_see(size):
    """Mean over the group of A times score: (1 - (1 - p)^(n - 1)) / p, the sum n times that."""
    rates = [0.02, 0.3, 0.9]
    expected = [size * (1 - (1 - rate) ** (size - 1)) / rate for rate in rates]
    found = expected_weights(MaxRlAdvantage(), AllSelection(), FixedRule(size), rates)
    assert found == pytest.approx(expected, rel=1e-6)
