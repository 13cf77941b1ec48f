"""A group of one response holds nothing to compare it with."""

from __future__ import annotations

import pytest

from ada_lightning.config.group import group_errors
from ada_lightning.config.setup import Setup
from ada_lightning.core.protocols import Advantage, Trait
from tests.unit.config.composing import composed

COMPARING = {
    "grpo": "GroupNormalizedAdvantage",
    "rloo": "LeaveOneOutAdvantage",
    "dr_grpo": "GroupNormalizedAdvantage",
    "official": "PoolMeanAdvantage",
    "max_rl": "MaxRlAdvantage",
    "novelty": "NoveltyAdvantage",
    "weighted_leave_one_out": "WeightedLeaveOneOutAdvantage",
    "exact": "ExactAdvantage",
}


def errors(*overrides):
    return list(group_errors(Setup(composed(*overrides))))


@pytest.mark.parametrize("advantage", COMPARING)
def test_one_response_of_each_prompt_is_refused_where_responses_are_compared(advantage):
    assert errors("sampler=uniform", "sampler.group_size=1", "selection=all", f"advantage={advantage}") == [
        f"sampler.group_size = 1: {COMPARING[advantage]} compares the responses of a prompt with each other, and where "
        "one alone is drawn every advantage is zero and nothing trains; use sampler.group_size=2 or more, or "
        "advantage=history_baseline, which compares with what is remembered of the prompt"
    ]


def test_the_rule_within_a_whitened_batch_is_looked_at():
    (error,) = errors("+experiment=reinforce_plus_plus", "sampler.group_size=1")
    assert error.startswith("sampler.group_size = 1: ")


def test_one_kept_of_many_is_refused_where_kept_ones_are_compared():
    (error,) = errors("sampler.group_size=1", "advantage=grpo")
    assert error.startswith("selection.group_size = 1: GroupNormalizedAdvantage compares")
    assert "one alone is kept" in error


@pytest.mark.parametrize(
    "overrides",
    [
        ["+experiment=ada", "sampler.group_size=1"],
        ["+experiment=grpo", "sampler.group_size=1", "advantage=accepted"],
        ["+experiment=grpo", "sampler.group_size=2"],
        ["sampler.group_size=1", "advantage=official"],  # a baseline of all that were drawn
        ["sampler.group_size=1", "advantage=exact"],  # class_errors says what is wrong with it
        ["selection=rarer_class", "advantage=grpo"],
    ],
    ids=" ".join,
)
def test_what_has_something_to_compare_with_passes(overrides):
    assert errors(*overrides) == []


class BestOfGroup(Advantage):
    """A user's own rule; what it says of itself is all that the check knows."""

    traits = frozenset({Trait.COMPARES_KEPT})


def test_a_rule_of_the_users_own_says_what_it_compares():
    own = f"advantage={{_target_: {__name__}.BestOfGroup}}"
    alone = ["sampler=uniform", "sampler.group_size=1", "selection=all"]
    (error,) = errors(*alone, f"~{own.split('=')[0]}", f"+{own}")
    assert error.startswith("sampler.group_size = 1: BestOfGroup compares the responses of a prompt")
