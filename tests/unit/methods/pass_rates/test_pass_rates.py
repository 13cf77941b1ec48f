from __future__ import annotations

import pytest

from ada_lightning.core.records import Belief, KeptResponse, ResponseGroup
from ada_lightning.core.stopping import QuotaRule
from ada_lightning.methods.pass_rates import FirstRoundRate, PathCountingRate, PoolMeanRate, PosteriorRate
from tests.builders import make_pool, make_response


@pytest.fixture
def group():
    """1 of 4 right in the first round, 1 of 4 in the second; stopped by balance 2/2."""
    pool = make_pool([])
    for index, reward in enumerate([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]):
        pool.add(make_response(index, reward, round_index=index // 4))
    pool.belief = Belief(1.0, 3.0)
    pool.rule = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
    return ResponseGroup(pool, (KeptResponse(pool.responses[0], 2.0),))


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (PoolMeanRate(), 2 / 8),
        (FirstRoundRate(), 1 / 4),
        (PosteriorRate(), (1 + 2) / (1 + 3 + 8)),
        (PathCountingRate(), 1 - 9 / 11),  # c of the log objective is 1 minus this; 9/11 is the reference's value
    ],
    ids=lambda value: type(value).__name__,
)
def test_rates_by_hand(group, rate, expected):
    assert rate(group) == pytest.approx(expected)


def test_a_pool_without_a_rule_of_counts_cannot_be_counted():
    pool = make_pool([1.0, 0.0])
    group = ResponseGroup(pool, (KeptResponse(pool.responses[0], 1.0),))
    with pytest.raises(ValueError, match=r"ended by more than its counts .* use advantage=stratified"):
        PathCountingRate()(group)
