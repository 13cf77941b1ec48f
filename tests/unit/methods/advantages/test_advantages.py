from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages import GroupNormalizedAdvantage, PoolMeanAdvantage
from ada_lightning.methods.selection import BalancedSelection
from tests.builders import assigned, make_group, make_pool


@pytest.fixture
def selected():
    """2 positives and 6 negatives drawn, 2 and 2 kept."""
    pool = make_pool([1.0, 1.0] + [0.0] * 6)
    return ResponseGroup(pool, BalancedSelection(group_size=4).select(pool))


def test_pool_mean_uses_the_whole_pool(selected):
    """2 of 8: mean 1/4, whatever was kept."""
    assert assigned(PoolMeanAdvantage(), selected) == pytest.approx(np.array([0.75, 0.75, -0.25, -0.25]))


def test_pool_mean_with_std_divides_by_the_unbiased_deviation(selected):
    """Deviation of two ones and six zeros: sqrt((2 * .75**2 + 6 * .25**2) / 7) = 0.46291."""
    expected = np.array([0.75, 0.75, -0.25, -0.25]) / (0.46291005 + 1e-6)
    assert assigned(PoolMeanAdvantage(normalize_std=True), selected) == pytest.approx(expected)


def test_group_normalized_uses_the_kept_group(selected):
    """2 of 4 kept: mean 1/2, deviation sqrt(4 * .25 / 3) = 0.57735."""
    expected = np.array([0.5, 0.5, -0.5, -0.5])
    assert assigned(GroupNormalizedAdvantage(normalize_std=False), selected) == pytest.approx(expected)
    assert assigned(GroupNormalizedAdvantage(), selected) == pytest.approx(expected / (0.57735027 + 1e-6))


def test_large_rewards_with_a_small_spread_keep_their_deviation():
    """Sums of squares would cancel: 1000.1**2 has no room in float32 for the difference."""
    advantages_B = assigned(GroupNormalizedAdvantage(), make_group([1000.0, 1000.1] * 2))
    # float32 holds 1000.1 to 6e-5, six parts in ten thousand of the spread of 0.1
    assert advantages_B == pytest.approx(np.array([-0.866, 0.866] * 2), abs=2e-3, rel=0)


@pytest.mark.parametrize("rewards", [[0.0] * 4, [1.0] * 4, [0.0], [1.0], [0.1] * 3])
@pytest.mark.parametrize(
    "advantage", [PoolMeanAdvantage(), PoolMeanAdvantage(normalize_std=True), GroupNormalizedAdvantage()]
)
def test_equal_rewards_have_no_advantage(rewards, advantage):
    """What packing relies on when it leaves groups without signal out."""
    advantages_B = assigned(advantage, make_group(rewards))
    # 0.1 summed three times is off by one rounding of float32; divided by the 1e-6 guard that is up to 0.01
    assert advantages_B == pytest.approx(np.zeros(len(rewards)), abs=1e-2, rel=0)


def test_pool_advantages_of_the_whole_pool_sum_to_zero():
    advantages_B = assigned(PoolMeanAdvantage(), make_group([1.0, 0.0, 0.0, 0.5, 0.25]))
    assert float(advantages_B.sum()) == pytest.approx(0.0, abs=1e-6)
