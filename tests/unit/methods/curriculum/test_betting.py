"""The bet on blocks: hand-computed wealth, and that no law without a difference makes it grow in mean."""

from __future__ import annotations

import itertools
import math

import pytest

from ada_lightning.methods.curriculum.betting import LARGEST_LOSS, Bet
from ada_lightning.methods.curriculum.trial import bound

BOUND = bound(0.125, 3.0, 4, 448 / 208)


def wealth(steps, bet=None):
    bet, found = bet or Bet(), []
    for differences in steps:
        bet.settle(differences, BOUND)
        found.append(round(bet.log_wealth, 6))
    return found


def test_wealth_follows_the_numbers_of_a_script_of_its_own():
    """Computed beside the product, from the formulas alone."""
    found = wealth([[0.2, 0.2, 0.3]] * 12)
    assert found[:5] == [0.0, 0.264365, 0.635193, 1.006021, 1.37685]
    assert found[9] == 3.230991 > math.log(20) > found[8]
    assert found[11] == 3.972648
    assert wealth([[-0.2, 0.0, 0.4]] * 4) == [0.0, 0.021012, 0.057151, 0.104603]


def test_the_other_side_wins_what_this_one_does_not():
    bet = Bet(sign=-1)
    assert wealth([[-0.2, -0.2, -0.3]] * 12, bet)[11] == 3.972648
    assert wealth([[0.2, 0.2, 0.3]] * 12, Bet(sign=-1)) == [0.0] * 12, "it bets on no difference of the other sign"


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("chance", [0.1, 0.5, 0.8])
def test_the_mean_wealth_stays_one_where_the_mean_difference_is_zero(sign, chance):
    """Over all outcomes of two steps of three blocks of a two-point law, after a step that made the stake positive."""
    low, high = -0.4, 0.4 * (1 - chance) / chance * (1 if chance >= 0.5 else 0.25)
    chance = -low / (high - low)  # so that the mean is 0
    mean = 0.0
    for outcome in itertools.product((0, 1), repeat=6):
        bet = Bet(sign=sign)
        bet.settle([sign * 0.5, sign * 0.3], 2.0)
        before = bet.log_wealth
        assert bet.stake(2.0) > 0
        values = [(low, high)[up] for up in outcome]
        bet.settle(values[:3], 2.0)
        bet.settle(values[3:], 2.0)
        mean += math.prod(chance if up else 1 - chance for up in outcome) * math.exp(bet.log_wealth - before)
    assert mean == pytest.approx(1.0, abs=1e-12)


def test_one_block_costs_at_most_its_part():
    bet = Bet()
    bet.settle([1.2] * 50, BOUND)
    before = bet.log_wealth
    bet.settle([-BOUND * (1 - 1e-12)], BOUND)
    assert math.exp(bet.log_wealth - before) == pytest.approx(1 - LARGEST_LOSS, abs=1e-9)


def test_a_difference_at_the_bound_is_refused():
    with pytest.raises(ValueError, match=r"below the bound 1\.5 in size"):
        Bet().settle([0.1, -1.5], 1.5)
    with pytest.raises(ValueError, match="below the bound"):
        Bet().settle([math.nan], 1.5)


def test_forgiving_and_state():
    bet = Bet()
    bet.settle([0.5, 0.5], BOUND)
    bet.settle([-0.9, -0.9], BOUND)
    assert bet.log_wealth < 0
    again = Bet.from_state(bet.state_dict())
    again.forgive()
    assert again.log_wealth == 0.0
    assert again.stake(BOUND) == bet.stake(BOUND), "what was seen is not forgotten"
