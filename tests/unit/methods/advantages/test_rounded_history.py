"""The baseline rounded to 0 or 1: unbiased, and what it costs."""

from __future__ import annotations

import itertools
import math

import pytest

from ada_lightning.core.records import Belief
from ada_lightning.methods.advantages import RoundedHistoryAdvantage
from tests.builders import make_group, weighed


def believed(rewards, alpha, beta):
    group = make_group(list(rewards))
    group.pool.belief = Belief(alpha, beta)
    return group


def advantages(rewards, alpha, beta):
    return RoundedHistoryAdvantage().assign([believed(rewards, alpha, beta)])[0]


@pytest.mark.parametrize(
    ("rewards", "belief", "expected"),
    [
        ((1.0,), (2, 6), [1.0]),  # mostly failed: the right one trains
        ((0.0,), (2, 6), [0.0]),
        ((1.0,), (6, 2), [0.0]),
        ((0.0,), (6, 2), [-1.0]),  # mostly solved: the wrong one trains
        ((1.0,), (3, 3), [1.0]),  # a tie counts as failed
        ((1.0, 1.0, 0.0), (2, 6), [1.0, 1.0, 0.0]),
        ((1.0, 0.0, 0.0, 0.0), (0, 0), [1.0, 0.0, 0.0, 0.0]),  # nothing known: the others decide
        ((1.0, 1.0, 1.0, 0.0), (0, 0), [0.0, 0.0, 0.0, -1.0]),
    ],
)
def test_by_hand(rewards, belief, expected):
    assert advantages(rewards, *belief) == expected


def moments(pass_rate, size, belief):
    """Exact over all outcomes, per response: factor on grad p, mean square of the advantage, share that trains."""
    slope = square = share = 0.0
    for rewards in itertools.product((0.0, 1.0), repeat=size):
        chance = math.prod(pass_rate if reward else 1 - pass_rate for reward in rewards) / size
        for advantage, reward in zip(advantages(rewards, *belief), rewards, strict=True):
            slope += chance * advantage * (reward - pass_rate) / (pass_rate * (1 - pass_rate))
            square += chance * advantage**2
            share += chance * bool(advantage)
    return slope, square, share


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("pass_rate", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("belief", [(1.0, 9.0), (9.0, 1.0), (0.2, 0.3)])
def test_whatever_is_believed_the_update_is_that_of_the_mean_pass_rate(size, pass_rate, belief):
    assert moments(pass_rate, size, belief)[0] == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(
    ("pass_rate", "size", "belief", "drawn", "trained", "share"),
    [
        (0.02, 1, (1, 9), 52.06, 1.041, 0.02),
        (0.1, 1, (1, 9), 12.35, 1.235, 0.1),
        (0.3, 1, (1, 9), 6.80, 2.041, 0.3),
        (0.3, 1, (9, 1), 15.87, 11.11, 0.7),  # rounded to the wrong side
        (0.1, 4, (0, 0), 15.11, 1.850, 0.122),  # the others alone decide
        (0.3, 4, (0, 0), 8.76, 3.386, 0.386),
    ],
)
def test_what_it_costs(pass_rate, size, belief, drawn, trained, share):
    """Noise over squared slope, per response drawn and per response trained: 1 / (m M^2) and 1 / M^2, M = 1 - m."""
    _, square, of_all = moments(pass_rate, size, belief)
    noise = square / (pass_rate * (1 - pass_rate)) ** 2
    assert [noise, noise * of_all] == pytest.approx([drawn, trained], rel=1e-3)
    assert of_all == pytest.approx(share, abs=1e-3)


def test_a_lone_response_trains_where_it_surprises_and_is_left_out_where_not():
    surprise, expected = weighed(RoundedHistoryAdvantage(), [believed([1.0], 1.0, 9.0), believed([0.0], 1.0, 9.0)])
    assert surprise.can_train
    assert not expected.can_train


def test_rewards_on_another_scale_are_said_to_train_all():
    with pytest.warns(RuntimeWarning, match="rounds its baseline"):
        assert advantages((0.5,), 1.0, 9.0) == [0.5]
