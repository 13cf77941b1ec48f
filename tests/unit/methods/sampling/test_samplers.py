from __future__ import annotations

import pytest

from ada_lightning.core.protocols import PoolEnd
from ada_lightning.methods.sampling import BalanceSampler, PositiveSampler, UniformSampler
from tests.builders import make_pool
from tests.unit.core.test_step import SAMPLERS

BALANCE = {"k_pos": 2, "k_neg": 2, "samples_per_round": 4, "n_max": 32, "group_size": 4}
POSITIVE = {"k_pos": 1, "samples_per_round": 4, "n_max": 32, "group_size": 4}


@pytest.mark.parametrize(
    ("num_positive", "num_negative", "wanted"),
    [
        (0, 0, 4),  # nothing drawn yet
        (2, 2, 0),  # both quotas met
        (1, 3, 4),  # a positive is missing
        (3, 1, 4),  # a negative is missing
        (1, 31, 0),  # budget spent
        (0, 30, 2),  # the last block is what is left of the budget
    ],
)
def test_balance_draws_until_both_quotas_or_the_budget(num_positive, num_negative, wanted):
    pool = make_pool([1.0] * num_positive + [0.0] * num_negative)
    assert BalanceSampler(**BALANCE).num_to_draw(pool) == wanted


@pytest.mark.parametrize(("num_positive", "num_negative", "wanted"), [(0, 4, 4), (1, 3, 0), (4, 0, 0), (0, 32, 0)])
def test_positive_draws_until_a_positive_or_the_budget(num_positive, num_negative, wanted):
    pool = make_pool([1.0] * num_positive + [0.0] * num_negative)
    assert PositiveSampler(**POSITIVE).num_to_draw(pool) == wanted


def test_excluded_draws_are_no_evidence_and_drawn_anew_up_to_a_limit():
    pool = make_pool([1.0, 1.0])
    pool.num_failed, pool.num_drawn = 2, 4
    assert pool.num_negative == 0
    assert BalanceSampler(**BALANCE).num_to_draw(pool) == 2  # completes the block
    pool.num_failed, pool.num_drawn = 61, 63
    assert BalanceSampler(**BALANCE).num_to_draw(pool) == 1
    pool.num_failed, pool.num_drawn = 62, 64
    assert BalanceSampler(**BALANCE).num_to_draw(pool) == 0


def test_uniform_draws_its_group_once():
    sampler = UniformSampler(group_size=4)
    assert sampler.num_to_draw(make_pool([])) == 4
    assert sampler.num_to_draw(make_pool([0.0] * 4)) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k_pos": 20, "k_neg": 20}, r"k_pos \+ k_neg = 40 exceeds n_max = 32"),
        ({"group_size": 64}, "group_size = 64 exceeds n_max = 32"),
        ({"samples_per_round": 5}, "samples_per_round = 5 does not divide n_max = 32; use n_max = 30"),
        ({"k_neg": 0}, "k_neg must be at least 1; got 0"),
        ({"samples_per_round": 0}, "samples_per_round must be at least 1; got 0"),
    ],
)
def test_balance_rejects_sizes_that_cannot_work(change, message):
    with pytest.raises(ValueError, match=message):
        BalanceSampler(**{**BALANCE, **change})


def test_all_size_errors_come_in_one_message():
    with pytest.raises(ValueError, match=r"k_pos = 99 exceeds .*; group_size = 40 exceeds .*; samples_per_round = 7"):
        PositiveSampler(k_pos=99, samples_per_round=7, n_max=32, group_size=40)


def test_uniform_rejects_an_empty_group():
    with pytest.raises(ValueError, match="group_size must be at least 1; got 0"):
        UniformSampler(group_size=0)


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_keeps_the_contract(name):
    sampler = SAMPLERS[name]()
    pools = [make_pool([], slot=slot, key=slot + 1) for slot in range(5)]
    sampler.plan(pools)
    wanted = [sampler.num_to_draw(pool) for pool in pools]
    assert all(0 <= number <= sampler.samples_per_round for number in wanted)
    assert [sampler.num_to_draw(pool) for pool in pools] == wanted  # asking changes nothing
    frozen = sampler.frozen()
    frozen.plan(pools[:1])
    assert [sampler.num_to_draw(pool) for pool in pools] == wanted  # nor does the plan of another step
    end = sampler.end(pools[0])
    assert isinstance(end, PoolEnd)
    assert end.inverse_probability >= 1
    assert 0 <= sampler.chance_to_go_on(pools[0], 1, 1, 0) <= 1
    assert sampler.expected_need(pools[0]) >= 0
    full = [make_pool([1.0, 0.0] * (sampler.samples_per_round * 8), key=slot + 50, slot=slot) for slot in range(5)]
    assert not any(sampler.num_to_draw(pool) for pool in full)
    known = frozen.state_dict()
    sampler.learn([pool for pool in full if pool.num_drawn])
    assert frozen.state_dict() == known  # nor what is learned while a step is open
    restored = SAMPLERS[name]()
    restored.load_state_dict(sampler.state_dict())
    assert restored.state_dict() == sampler.state_dict()
