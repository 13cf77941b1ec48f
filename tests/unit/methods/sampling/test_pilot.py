"""DARS, SPEED and Pilot-Commit: golden values, and what they draw."""

from __future__ import annotations

import math

import pytest

from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.published.dars import DarsSampler
from ada_lightning.methods.published.pilot_commit import PilotCommitSampler
from ada_lightning.methods.published.speed import SpeedSampler
from tests.builders import make_pool, make_prompt, make_response

DARS = {"num_pilot": 8, "n_max": 64, "hardness_weighted": False, "normalize_std": True, "group_size": 64}
SPEED = {"num_screen": 4, "num_continue": 20, "group_size": 24}
COMMIT = {"num_pilot": 16, "num_commit": 48, "min_rate": 0.125, "max_rate": 0.75, "group_size": 64}


@pytest.mark.parametrize(
    ("hardness_weighted", "normalize_std", "more"),
    [
        (False, True, [9, 5, 2, 1, 0]),
        (True, True, [23, 14, 6, 3, 0]),
        (False, False, [27, 11, 3, 1, 0]),
        (True, False, [56, 24, 8, 3, 0]),
    ],
)
def test_golden_values_of_dars(hardness_weighted, normalize_std, more):
    """Reference section 17, 8 pilots with 0 to 4 right ones."""
    sampler = DarsSampler(**DARS | {"hardness_weighted": hardness_weighted, "normalize_std": normalize_std})
    assert [total - 8 for total in sampler.rule.totals[:5]] == more
    assert sampler.rule.totals[4:] == (8,) * 5
    assert DarsSampler(**DARS | {"n_max": 12, "group_size": 8}).rule.totals[:3] == (12, 12, 10)  # both rounds


@pytest.mark.parametrize("hardness_weighted", [False, True])
@pytest.mark.parametrize("normalize_std", [False, True])
@pytest.mark.parametrize("num_pilot", [2, 5, 7, 8, 20])
def test_dars_draws_the_fewest_that_reach_the_target(num_pilot, hardness_weighted, normalize_std):
    sizes = {"num_pilot": num_pilot, "n_max": 10_000, "group_size": 1}
    rule = DarsSampler(hardness_weighted=hardness_weighted, normalize_std=normalize_std, **sizes).rule
    for positives, total in enumerate(rule.totals):
        rate = positives / num_pilot or 0.5 / num_pilot
        if rate >= 0.5:
            assert total == num_pilot
            continue
        per_response = 2 * math.sqrt(rate * (1 - rate)) if normalize_std else 2 * rate * (1 - rate)
        target = num_pilot * (1.0 if normalize_std else 0.5) * (2 * (1 - rate) if hardness_weighted else 1)
        assert total * per_response >= target - 1e-9
        assert total == num_pilot or (total - 1) * per_response < target - 1e-9


@pytest.mark.parametrize(
    ("rewards", "wanted"),
    [
        ([], 4),
        ([0.0, 0.0], 2),
        ([0.0] * 4, 0),
        ([1.0] * 4, 0),
        ([1.0, 0.0, 0.0, 0.0], 20),
        ([1.0, 0.0, 0.0, 0.0] + [0.0] * 5, 15),
        ([1.0, 0.0, 0.0, 0.0] + [0.0] * 20, 0),
    ],
)
def test_a_prompt_follows_its_pilot(rewards, wanted):
    assert SpeedSampler(**SPEED).num_to_draw(make_pool(rewards)) == wanted


def test_a_block_is_the_larger_of_the_two_rounds():
    assert SpeedSampler(**SPEED).samples_per_round == 20
    assert SpeedSampler(num_screen=8, num_continue=2, group_size=4).samples_per_round == 8


def test_the_band_of_pilot_commit_includes_its_ends():
    totals = PilotCommitSampler(**COMMIT).rule.totals
    assert [positives for positives, total in enumerate(totals) if total == 64] == list(range(2, 13))
    assert set(totals) == {16, 64}
    tenths = PilotCommitSampler(num_pilot=10, num_commit=1, min_rate=0.3, max_rate=0.7, group_size=2).rule.totals
    assert tenths == (10, 10, 10, 11, 11, 11, 11, 11, 10, 10, 10)


def test_what_is_no_evidence_is_drawn_anew_but_not_for_ever():
    sampler = SpeedSampler(**SPEED)
    pool = make_pool([1.0, 0.0, 1.0])
    pool.num_drawn = 4  # one grade failed
    assert sampler.num_to_draw(pool) == 1
    pool.add(make_response(4, 1.0))
    assert sampler.num_to_draw(pool) == 20
    hopeless = ResponsePool(make_prompt(), 0, num_drawn=47)
    assert sampler.num_to_draw(hopeless) == 1
    hopeless.num_drawn = 48
    assert sampler.num_to_draw(hopeless) == 0
