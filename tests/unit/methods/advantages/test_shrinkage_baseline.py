"""V0.5's baseline without the response itself: golden numbers, and unbiased by enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.methods.published.shrinkage_baseline import ShrinkageBaselineAdvantage, shrunk
from tests.builders import assigned
from tests.unit.methods.advantages.test_history import believed, moments

RULE = ShrinkageBaselineAdvantage()


def test_by_hand():
    # of rewards +1, -1, -1, -1: d = 1 - 1/4 = .75, w = .75; then (.3)^2 is within the noise
    assert shrunk(-0.5, 0.5, 1 / 4) == pytest.approx(-0.25)
    assert shrunk(-0.5, -0.2, 1 / 4) == -0.2
    # 1 of 4, .9 expected. Others of the right one: 0, noise 1/12, d = .81 - .0833, w = d / .81, baseline .9 / 9.72
    # Others of a wrong one: 1/3, d = .3211 - .0833 = .2378, w = .7405, baseline .4804
    expected = [1 - 0.9 * (1 / 12) / 0.81, *[-(0.740484 / 3 + 0.259516 * 0.9)] * 3]
    assert assigned(RULE, believed([1, 0, 0, 0], (9, 1))) == pytest.approx(np.array(expected), abs=1e-5)
    assert assigned(RULE, believed([1], (1, 3))) == pytest.approx([0.75])
    assert assigned(RULE, believed([1, 1, 1, 1], (9, 1))) == pytest.approx([0.1] * 4)  # not contradicted


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("pass_rate", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("belief", [(1.0, 1.0), (9.0, 1.0), (0.2, 5.0)])
def test_whatever_is_believed_the_update_is_that_of_the_mean_pass_rate(size, pass_rate, belief):
    assert moments(RULE, pass_rate, size, belief)[0] == pytest.approx(1.0, rel=1e-12)


def test_with_the_response_itself_it_would_not_be():
    """The paper's form, by the same enumeration: what taking the response out is for."""

    class Own(ShrinkageBaselineAdvantage):
        def of_group(self, group):
            rewards = [kept.response.reward for kept in group.kept]
            baseline = shrunk(sum(rewards) / len(rewards), group.pool.belief.mean, 1 / (4 * len(rewards)))
            return [reward - baseline for reward in rewards]

    assert abs(moments(Own(), 0.3, 4, (9.0, 1.0))[0] - 1.0) > 0.1


def test_a_wrong_belief_costs_less_and_a_right_one_as_little():
    floor = 0.3 * 0.7
    assert moments(RULE, 0.3, 8, (3.0, 7.0))[1] < 1.15 * floor
    assert moments(RULE, 0.3, 8, (90.0, 10.0))[1] < 0.6 * (floor + 0.36)


def test_rewards_beyond_0_and_1_are_said():
    with pytest.warns(RuntimeWarning, match=r"rewards outside of \[0, 1\], and ShrinkageBaselineAdvantage compares"):
        assigned(RULE, believed([2.0, 0.0], (1, 1)))
