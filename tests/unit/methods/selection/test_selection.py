from __future__ import annotations

from dataclasses import replace

import pytest

from ada_lightning.methods.selection import (
    AllSelection,
    BalancedSelection,
    BanditSelection,
    FixedFractionPruning,
    LargestAdvantageBatchSelection,
    LargestAdvantageSelection,
    MaxVarianceSelection,
    PositivesSelection,
    PruningSelection,
    QuantileSelection,
    RarerClassSelection,
    ResolvedSelection,
    StratifiedSelection,
    ThinnedSelection,
)
from tests.builders import make_pool


@pytest.mark.parametrize(
    ("num_positive", "num_negative", "kept_positive", "kept_negative"),
    [
        (8, 8, 2, 2),
        (1, 31, 1, 3),
        (31, 1, 3, 1),
        (0, 32, 0, 4),
        (32, 0, 4, 0),
        (3, 1, 3, 1),
        (2, 1, 2, 1),
        (1, 0, 1, 0),
        (0, 0, 0, 0),
    ],
)
def test_balanced_keeps_what_the_official_code_keeps(num_positive, num_negative, kept_positive, kept_negative):
    """Table of reference section 1.2 for n = 4, with its corner cases."""
    pool = make_pool([0.0] * num_negative + [1.0] * num_positive)
    kept = BalancedSelection(group_size=4).select(pool)
    assert sum(k.response.is_positive for k in kept) == kept_positive
    assert sum(not k.response.is_positive for k in kept) == kept_negative


def test_balanced_takes_the_first_generated_of_each_class():
    pool = make_pool([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    kept = BalancedSelection(group_size=4).select(pool)
    assert [k.response.sample_index for k in kept] == [1, 3, 0, 2]


def test_selection_weights_restore_the_mix_of_the_pool():
    pool = make_pool([1.0] * 3 + [0.0] * 9)
    kept = BalancedSelection(group_size=4).select(pool)
    assert sum(k.selection_weight for k in kept if k.response.is_positive) == pytest.approx(3)
    assert sum(k.selection_weight for k in kept if not k.response.is_positive) == pytest.approx(9)


def test_all_keeps_the_pool_in_launch_order_with_weight_one():
    kept = AllSelection().select(make_pool([0.0, 1.0, 0.0]))
    assert [(k.response.sample_index, k.selection_weight) for k in kept] == [(0, 1.0), (1, 1.0), (2, 1.0)]


def test_a_group_below_one_is_an_error():
    with pytest.raises(ValueError, match="group_size must be at least 1; got 0"):
        BalancedSelection(group_size=0)


def test_balanced_keeps_its_numbers_and_weights_in_random_order():
    pool = make_pool([1.0] * 3 + [0.0] * 9)
    kept = BalancedSelection(group_size=4, random_order=True).select(pool)
    assert [k.selection_weight for k in kept] == [1.5, 1.5, 4.5, 4.5]
    assert [k.response.is_positive for k in kept] == [True, True, False, False]


def test_balanced_without_random_order_does_not_look_at_the_seed():
    pool = make_pool([0.0, 1.0] * 8)
    assert BalancedSelection(group_size=4, seed=1).select(pool) == BalancedSelection(group_size=4).select(pool)


def test_masked_responses_count_in_the_weights_and_are_never_kept():
    pool = make_pool([1.0] * 4 + [0.0] * 4)
    pool.responses[0] = replace(pool.responses[0], is_masked=True)
    for selection in (BalancedSelection(group_size=4), BalancedSelection(group_size=8, random_order=True)):
        kept = selection.select(pool)
        assert 0 not in [k.response.sample_index for k in kept]
        assert sum(k.selection_weight for k in kept) == pytest.approx(8)


SELECTIONS = {
    "all": AllSelection(),
    "balanced": BalancedSelection(group_size=4),
    "bandit": BanditSelection(group_size=4),
    "fixed fraction": FixedFractionPruning(rate=0.5),
    "largest": LargestAdvantageSelection(rate=0.5),
    "largest of the batch": LargestAdvantageBatchSelection(rate=0.5, normalize_std=True),
    "max variance": MaxVarianceSelection(group_size=4),
    "positives": PositivesSelection(),
    "pruning": PruningSelection(rate=0.5),
    "quantile": QuantileSelection(group_size=4, num_strata=2),
    "rarer": RarerClassSelection(max_per_class=2),
    "resolved": ResolvedSelection(selection=BalancedSelection(group_size=4)),
    "stratified": StratifiedSelection(group_size=4, thresholds=[0.5]),
    "thinned": ThinnedSelection(full_advantage=0.5),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_every_selection_keeps_the_contract(name):
    """Some of what may train, each once, by weights above 0; the same whenever asked; nothing of nothing."""
    selection, pools = SELECTIONS[name], [make_pool([1.0, 0.0, 0.0] * 3), make_pool([0.0] * 4, slot=1), make_pool([])]
    pools[0].responses[0] = replace(pools[0].responses[0], is_masked=True)
    kept = [tuple(group) for group in selection.select_all(pools)]
    assert [tuple(group) for group in selection.select_all(pools)] == kept
    for pool, group in zip(pools, kept, strict=True):
        indices = [each.response.sample_index for each in group]
        assert set(indices) <= {response.sample_index for response in pool.trainable()}
        assert len(set(indices)) == len(indices)
        assert all(each.selection_weight > 0 and each.inverse_probability >= 1 for each in group)
    assert kept[2] == ()
    assert any(kept)
    assert isinstance(selection.bend(), str)
    assert selection.takes(pools[0])
    selection.learn({})
    selection.load_state_dict(selection.state_dict())
    selection.load_state_dict({})
