from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ada_lightning.core.records import KeptResponse, ResponseGroup
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.published.xrpo import NoveltyAdvantage
from tests.builders import assigned, make_group, make_pool


def group_with(rewards, mean_logprobs):
    pool = make_pool(rewards)
    kept = tuple(
        KeptResponse(replace(response, sampling_logprobs=(mean - 0.5, mean + 0.5)), 1.0)
        for response, mean in zip(pool.responses, mean_logprobs, strict=True)
    )
    return ResponseGroup(pool, kept)


def test_the_bonus_by_hand():
    """Two right, two wrong, mean of s is -1: advantages +-1/sqrt(1/3) without a bonus."""
    group = group_with([1.0, 1.0, 0.0, 0.0], [-1.1, -0.5, -1.4, -1.0])
    (advantages,) = NoveltyAdvantage(scale=2.5, cap=0.5).assign([group])
    plain = 0.5 / (math.sqrt(1 / 3) + 1e-6)
    bonus = 2.5 * (1 - math.exp(-0.1))
    assert bonus < 0.5 * plain
    assert advantages == pytest.approx([plain + bonus, plain, -plain, -plain], rel=1e-12)
    (capped,) = NoveltyAdvantage(scale=2.5, cap=0.1).assign([group])
    assert capped == pytest.approx([1.1 * plain, plain, -plain, -plain], rel=1e-12)


@pytest.mark.parametrize("normalize_std", [True, False])
def test_without_a_bonus_it_is_the_standardised_reward(normalize_std):
    groups = [make_group([1.0, 0.0, 1.0, 0.0, 0.0]), make_group([0.2, 0.9]), make_group([1.0])]
    found = NoveltyAdvantage(scale=0.0, normalize_std=normalize_std).assign(groups)
    for group, advantages in zip(groups, found, strict=True):
        expected = assigned(GroupNormalizedAdvantage(normalize_std=normalize_std), group)
        assert np.array(advantages) == pytest.approx(expected)


def test_only_right_answers_that_are_better_than_their_group_get_it():
    (all_right,) = NoveltyAdvantage().assign([group_with([1.0, 1.0], [-3.0, -0.1])])
    assert all_right == [0.0, 0.0]
    (partial,) = NoveltyAdvantage(normalize_std=False).assign([group_with([0.6, 0.1], [-3.0, -0.1])])
    assert partial == pytest.approx([0.25, -0.25])  # above the mean, but below the threshold of a positive
