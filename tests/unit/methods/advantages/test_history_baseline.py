from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ada_lightning.core.records import Belief
from ada_lightning.methods.advantages import HistoryBaselineAdvantage, LeaveOneOutAdvantage
from tests.builders import assigned, make_group, weighed


def believed(rewards, alpha, beta):
    group = make_group(rewards)
    group.pool.belief = Belief(alpha, beta)
    return group


def moments(pass_rate, size, alpha, beta):
    """Mean over all outcomes of ``sum of A (r - p)`` (p q times the factor on grad p) and of ``sum of A^2``."""
    slope = square = 0.0
    for rewards in itertools.product((0.0, 1.0), repeat=size):
        chance = math.prod(pass_rate if reward else 1 - pass_rate for reward in rewards)
        (advantages,) = HistoryBaselineAdvantage().assign([believed(list(rewards), alpha, beta)])
        slope += chance * sum(a * (r - pass_rate) for a, r in zip(advantages, rewards, strict=True))
        square += chance * sum(a * a for a in advantages)
    return slope, square


def test_by_hand():
    """Beta(1, 3) and the others: (1 + 1) / (4 + 2) for the right ones, (1 + 2) / 6 for the wrong one."""
    (advantages,) = HistoryBaselineAdvantage().assign([believed([1.0, 0.0, 1.0], 1.0, 3.0)])
    assert advantages == pytest.approx([1 - 2 / 6, -3 / 6, 1 - 2 / 6], rel=1e-12)


def test_a_single_response_is_compared_with_history():
    assert HistoryBaselineAdvantage().assign([believed([1.0], 1.0, 3.0)]) == [[0.75]]


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("pass_rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (9.0, 1.0), (0.2, 5.0)])
def test_whatever_is_believed_the_update_is_that_of_the_mean_pass_rate(size, pass_rate, alpha, beta):
    slope, _ = moments(pass_rate, size, alpha, beta)
    assert slope == pytest.approx(size * pass_rate * (1 - pass_rate), rel=1e-12)


def test_a_right_belief_takes_the_noise_of_a_small_group_away():
    pass_rate, size = 0.3, 4
    floor = size * pass_rate * (1 - pass_rate)
    _, sure = moments(pass_rate, size, 300.0, 700.0)
    _, vague = moments(pass_rate, size, 3.0, 7.0)
    assert sure == pytest.approx(floor, rel=1e-2)
    assert floor < vague < floor * size / (size - 1)  # RLOO's


def test_without_a_history_it_is_rloo():
    group = believed([1.0, 0.0, 0.0, 1.0, 1.0], 1e-9, 1e-9)
    (advantages,) = HistoryBaselineAdvantage().assign([group])
    assert np.array(advantages) == pytest.approx(assigned(LeaveOneOutAdvantage(), group))


def test_equal_rewards_train_as_far_as_they_surprise():
    expected, surprise = weighed(
        HistoryBaselineAdvantage(), [believed([1.0, 1.0], 99.0, 1.0), believed([1.0, 1.0], 1.0, 99.0)]
    )
    assert expected.can_train
    assert not expected.has_signal
    assert surprise.kept[0].advantage > 50 * expected.kept[0].advantage > 0


def test_it_says_that_rewards_on_another_scale_are_compared_with_a_pass_rate():
    with pytest.warns(RuntimeWarning, match="rewards other than 0 and 1, and HistoryBaselineAdvantage subtracts"):
        (advantages,) = HistoryBaselineAdvantage().assign([believed([0.5, 0.5], 1.0, 1.0)])
    assert advantages == pytest.approx([0.0, 0.0], abs=1e-12)
