"""Baselines from history, as they are and rounded to 0 or 1: unbiased whatever is believed, and what they cost."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ada_lightning.core.records import Belief
from ada_lightning.methods.advantages import HistoryBaselineAdvantage, LeaveOneOutAdvantage, RoundedHistoryAdvantage
from tests.builders import assigned, make_group, weighed

HISTORY, ROUNDED = HistoryBaselineAdvantage(), RoundedHistoryAdvantage()


def believed(rewards, belief):
    group = make_group(list(rewards))
    group.pool.belief = Belief(*belief)
    return group


@pytest.mark.parametrize(
    ("rule", "rewards", "belief", "expected"),
    [
        # Beta(1, 3) and the others: (1 + 1) / (4 + 2) for the right ones, (1 + 2) / 6 for the wrong one
        (HISTORY, (1, 0, 1), (1, 3), [1 - 2 / 6, -3 / 6, 1 - 2 / 6]),
        (HISTORY, (1,), (1, 3), [0.75]),
        (ROUNDED, (1,), (2, 6), [1]),  # mostly failed: the right one trains
        (ROUNDED, (0,), (2, 6), [0]),
        (ROUNDED, (1,), (6, 2), [0]),
        (ROUNDED, (0,), (6, 2), [-1]),  # mostly solved: the wrong one trains
        (ROUNDED, (1,), (3, 3), [1]),  # a tie counts as failed
        (ROUNDED, (1, 1, 0), (2, 6), [1, 1, 0]),
        (ROUNDED, (1, 0, 0, 0), (0, 0), [1, 0, 0, 0]),  # nothing known: the others decide
        (ROUNDED, (1, 1, 0, 0), (0, 0), [1, 1, -1, -1]),
        (ROUNDED, (1, 1, 1, 0), (0, 0), [0, 0, 0, -1]),
    ],
)
def test_by_hand(rule, rewards, belief, expected):
    assert assigned(rule, believed(rewards, belief)) == pytest.approx(np.array(expected, float), rel=1e-12)


def moments(rule, pass_rate, size, belief):
    """Exact over all outcomes, per response: factor on grad p, mean square of the advantage, share that trains."""
    slope = square = share = 0.0
    for rewards in itertools.product((0.0, 1.0), repeat=size):
        chance = math.prod(pass_rate if reward else 1 - pass_rate for reward in rewards) / size
        for advantage, reward in zip(assigned(rule, believed(rewards, belief)).tolist(), rewards, strict=True):
            slope += chance * advantage * (reward - pass_rate) / (pass_rate * (1 - pass_rate))
            square += chance * advantage**2
            share += chance * bool(advantage)
    return slope, square, share


@pytest.mark.parametrize("rule", [HISTORY, ROUNDED])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("pass_rate", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("belief", [(1.0, 1.0), (9.0, 1.0), (0.2, 5.0)])
def test_whatever_is_believed_the_update_is_that_of_the_mean_pass_rate(rule, size, pass_rate, belief):
    assert moments(rule, pass_rate, size, belief)[0] == pytest.approx(1.0, rel=1e-12)


def test_a_right_belief_takes_the_noise_of_a_small_group_away():
    pass_rate, size = 0.3, 4
    floor = pass_rate * (1 - pass_rate)
    _, sure, _ = moments(HISTORY, pass_rate, size, (300.0, 700.0))
    _, vague, _ = moments(HISTORY, pass_rate, size, (3.0, 7.0))
    assert sure == pytest.approx(floor, rel=1e-2)
    assert floor < vague < floor * size / (size - 1)  # RLOO's


@pytest.mark.parametrize(
    ("pass_rate", "size", "belief", "drawn", "trained", "share"),
    [
        (0.02, 1, (1, 9), 52.06, 1.041, 0.02),
        (0.1, 1, (1, 9), 12.35, 1.235, 0.1),
        (0.3, 1, (1, 9), 6.80, 2.041, 0.3),
        (0.5, 1, (1, 9), 8.00, 4.000, 0.5),
        (0.3, 1, (9, 1), 15.87, 11.11, 0.7),  # rounded to the wrong side
        (0.1, 4, (0, 0), 15.11, 1.850, 0.122),  # the others alone decide
        (0.3, 4, (0, 0), 8.76, 3.386, 0.386),
        (0.5, 4, (0, 0), 8.00, 4.000, 0.5),
        (0.1, 8, (0, 0), 12.62, 1.289, 0.102),
        (0.3, 8, (0, 0), 7.95, 2.784, 0.350),
        (0.5, 8, (0, 0), 8.00, 4.000, 0.5),
    ],
)
def test_what_rounding_costs(pass_rate, size, belief, drawn, trained, share):
    """Noise over squared slope, per response drawn and per response trained: 1 / (m M^2) and 1 / M^2, M = 1 - m."""
    _, square, of_all = moments(ROUNDED, pass_rate, size, belief)
    noise = square / (pass_rate * (1 - pass_rate)) ** 2
    assert [noise, noise * of_all] == pytest.approx([drawn, trained], rel=1e-3)
    assert of_all == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize(
    ("size", "expected"), [(2, (0.5, 0.5, 0.5)), (4, (0.865, 0.685, 0.625)), (8, (0.987, 0.838, 0.727))]
)
def test_rounding_the_mean_with_the_response_itself_would_shrink_the_update(size, expected):
    """What each response's own part in the mean would cost, ties left at 1/2: a factor on the gradient."""

    class Own(RoundedHistoryAdvantage):
        def of_group(self, group):
            rewards = [kept.response.reward for kept in group.kept]
            baseline = 0.5 * ((2 * sum(rewards) > len(rewards)) + (2 * sum(rewards) >= len(rewards)))
            return [reward - baseline for reward in rewards]

    found = [moments(Own(), pass_rate, size, (1, 9))[0] for pass_rate in (0.1, 0.3, 0.5)]
    assert found == pytest.approx(expected, abs=5e-4)


def test_without_a_history_it_is_rloo():
    group = believed([1.0, 0.0, 0.0, 1.0, 1.0], (1e-9, 1e-9))
    assert assigned(HISTORY, group) == pytest.approx(assigned(LeaveOneOutAdvantage(), group))


def test_equal_rewards_train_as_far_as_they_surprise():
    expected, surprise = weighed(HISTORY, [believed([1.0, 1.0], (99.0, 1.0)), believed([1.0, 1.0], (1.0, 99.0))])
    assert (bool(expected.trained), expected.has_signal) == (True, False)
    assert surprise.kept[0].advantage > 50 * expected.kept[0].advantage > 0
    surprise, expected = weighed(ROUNDED, [believed([1.0], (1.0, 9.0)), believed([0.0], (1.0, 9.0))])
    assert (bool(surprise.trained), bool(expected.trained)) == (True, False)


@pytest.mark.parametrize(
    ("rule", "belief", "warning", "advantage"),
    [
        (HISTORY, (1.0, 1.0), "rewards other than 0 and 1, and HistoryBaselineAdvantage subtracts", 0.0),
        (ROUNDED, (1.0, 9.0), "rewards other than 0 and 1, and RoundedHistoryAdvantage rounds its baseline", 0.5),
    ],
)
def test_it_says_that_rewards_on_another_scale_are_compared_with_a_pass_rate(rule, belief, warning, advantage):
    with pytest.warns(RuntimeWarning, match=warning):
        assert assigned(rule, believed([0.5, 0.5], belief)) == pytest.approx(np.full(2, advantage), abs=1e-12)
