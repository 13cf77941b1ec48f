from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.methods.published.cppo import LargestAdvantageBatchSelection, LargestAdvantageSelection
from ada_lightning.methods.selection import AllSelection
from ada_lightning.methods.selection.magnitude import pool_advantages
from tests.builders import assigned, make_pool


def indices(kept):
    return [k.response.sample_index for k in kept]


@pytest.mark.parametrize("normalize_std", [False, True])
@pytest.mark.parametrize("rewards", [[1, 0, 0, 1, 0], [0.1, 0.7, 0.35, 0.2], [-2.0, 5.0], [1.0] * 4, [0.1] * 3, [1.0]])
def test_what_is_ranked_by_is_what_trains(rewards, normalize_std):
    """The advantage that the policy computes later, of the whole pool."""
    pool = make_pool(rewards)
    trained = assigned(PoolMeanAdvantage(normalize_std=normalize_std), ResponseGroup(pool, AllSelection().select(pool)))
    ranked = np.array(pool_advantages(pool, normalize_std=normalize_std))
    if pool.has_signal:
        assert ranked == pytest.approx(trained, rel=1e-5, abs=1e-5)
    else:
        assert ranked.tolist() == [0.0] * len(rewards)


@pytest.mark.parametrize(
    ("rewards", "rate", "expected"),
    [
        ([0, 0, 0, 1, 0, 0, 0, 0], 0.75, [0, 3]),  # the rare class first, then the first generated
        ([1, 1, 0, 1], 0.5, [0, 2]),
        ([1, 0, 1, 0], 0.5, [0, 1]),  # all equally large
        ([0.0, 0.2, 0.9, 0.4], 0.5, [0, 2]),
        ([0, 1, 0], 0.9, [1]),  # never nothing
        ([1] + [0] * 9, 0.9, [0]),  # 10 * (1 - 0.9) is 0.99... in floating point
        ([1] + [0] * 9, 0.8, [0, 1]),
        ([0, 1, 0], 0.0, [0, 1, 2]),
        ([1] * 4, 0.5, [0, 1]),
        ([], 0.5, []),
    ],
)
def test_the_largest_of_each_pool_stay(rewards, rate, expected):
    assert indices(LargestAdvantageSelection(rate=rate).select(make_pool(rewards))) == expected


def test_of_the_batch_the_largest_stay_whoever_they_belong_to():
    pools = [make_pool([1, 0, 0, 0], slot=0), make_pool([0] * 4, slot=1), make_pool([1, 1, 0, 0], slot=2)]
    rule = LargestAdvantageBatchSelection(rate=0.5, normalize_std=False)
    kept = rule.select_all(pools)
    assert [indices(group) for group in kept] == [[0, 1], [], [0, 1, 2, 3]]  # 3/4, four of 1/2, one of 1/4; none of 0
    standardised = LargestAdvantageBatchSelection(rate=0.75, normalize_std=True).select_all(pools)
    assert [indices(group) for group in standardised] == [[0], [], [0, 1]]


def test_masked_responses_are_no_candidates():
    pool = make_pool([1, 0, 0, 0])
    pool.responses[0] = replace(pool.responses[0], is_masked=True)
    assert indices(LargestAdvantageSelection(rate=0.5).select(pool)) == [1]
    (kept,) = LargestAdvantageBatchSelection(rate=0.5, normalize_std=False).select_all([pool])
    assert indices(kept) == [1]
