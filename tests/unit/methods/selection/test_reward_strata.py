from __future__ import annotations

import pytest

from ada_lightning.methods.selection import BalancedSelection, QuantileSelection, StratifiedSelection
from tests.builders import make_pool

# Below or at 0.3: indices 0 2 4 5 8; up to 0.7: 1 6 7; above: 3.
REWARDS = [0.0, 0.5, 0.3, 1.0, 0.1, 0.0, 0.7, 0.4, 0.2]


def indices_and_weights(kept):
    return [(k.response.sample_index, k.selection_weight) for k in kept]


def test_stratified_by_hand():
    """Shares of 2, 2, 2; the top stratum has one, so the largest gets a third: 5 of its responses by 3 kept."""
    kept = StratifiedSelection(group_size=6, thresholds=[0.3, 0.7]).select(make_pool(REWARDS))
    third = 5 / 3
    assert indices_and_weights(kept) == [(3, 1.0), (1, 1.5), (6, 1.5), (0, third), (2, third), (4, third)]


def test_a_reward_equal_to_a_threshold_is_below_it():
    strata = StratifiedSelection(group_size=2, thresholds=[0.7]).strata(make_pool([0.7, 0.71]))
    assert strata == {0.7: 0, 0.71: 1}


def test_one_threshold_on_binary_rewards_keeps_what_balanced_keeps():
    for num_positive in range(13):
        pool = make_pool([0.0] * (12 - num_positive) + [1.0] * num_positive)
        stratified = StratifiedSelection(group_size=4, thresholds=[0.5]).select(pool)
        assert stratified == BalancedSelection(group_size=4).select(pool)


def test_the_share_of_an_empty_stratum_goes_to_the_others():
    """Nothing above 0.9: 9 places for 20 and 5 responses are 4 and 4, and one more of what has most left."""
    kept = StratifiedSelection(group_size=9, thresholds=[0.5, 0.9]).select(make_pool([0.0] * 20 + [0.6] * 5))
    assert [k.response.reward for k in kept] == [0.6] * 4 + [0.0] * 5
    assert [k.selection_weight for k in kept] == pytest.approx([1.25] * 4 + [4.0] * 5)


@pytest.mark.parametrize("random_order", [False, True])
@pytest.mark.parametrize(
    "selection",
    [
        lambda **options: StratifiedSelection(group_size=4, thresholds=[0.05, 0.3, 0.9], **options),
        lambda **options: QuantileSelection(group_size=4, num_strata=4, **options),
    ],
)
def test_weights_restore_every_stratum_and_a_small_pool_is_kept_whole(selection, random_order):
    selection = selection(random_order=random_order, seed=5)
    pool = make_pool(REWARDS)
    strata = selection.strata(pool)
    kept = selection.select(pool)
    assert len(kept) == 4
    for stratum in set(strata.values()):
        size = sum(strata[response.reward] == stratum for response in pool.responses)
        assert sum(k.selection_weight for k in kept if strata[k.response.reward] == stratum) == pytest.approx(size)
    assert sorted(indices_and_weights(selection.select(make_pool(REWARDS[:3])))) == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert selection.select(make_pool([])) == ()


def test_quantiles_are_those_of_the_pool_and_equal_rewards_share_one():
    strata = QuantileSelection(group_size=4, num_strata=4).strata
    assert strata(make_pool([5.0, -1.0, 3.0, 9.0])) == {-1.0: 0, 3.0: 1, 5.0: 2, 9.0: 3}
    assert strata(make_pool([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])) == {
        0.1: 0, 0.2: 0, 0.3: 1, 0.4: 1, 0.5: 2, 0.6: 2, 0.7: 3, 0.8: 3,
    }  # fmt: skip
    # mid-ranks 2/6 and 5/6
    assert strata(make_pool([0.5, 0.5, 0.5, 0.5, 1.0, 1.0])) == {0.5: 1, 1.0: 3}
    assert strata(make_pool([0.5] * 6)) == {0.5: 2}


@pytest.mark.parametrize("num_positive", [1, 2, 16, 31])
def test_a_rare_reward_at_either_end_has_a_quantile_of_its_own(num_positive):
    strata = QuantileSelection(group_size=4, num_strata=2).strata
    assert strata(make_pool([0.0] * (32 - num_positive) + [1.0] * num_positive)) == {0.0: 0, 1.0: 1}
