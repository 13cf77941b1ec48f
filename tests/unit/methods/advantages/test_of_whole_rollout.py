"""Whitening over a rollout, RAFT's rule, and what packing makes of assigned advantages."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from ada_lightning.core.packing import group_microbatch, pack_groups
from ada_lightning.core.protocols import RolloutAdvantage
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages import (
    AcceptedAdvantage,
    BatchWhitenedAdvantage,
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
    ReinforcePlusPlusBaselineAdvantage,
)
from ada_lightning.methods.advantages.assigned import with_advantages
from ada_lightning.methods.selection import PositivesSelection
from tests.builders import make_group, make_pool

MIXED = make_group([1.0, 0.0, 0.0], num_tokens=[2, 4, 6], key=1)
EVEN = make_group([1.0, 1.0, 0.0, 0.0, 0.0], num_tokens=[1, 2, 3, 4, 5], key=2)  # ragged: 5 responses
WRONG = make_group([0.0, 0.0], num_tokens=[3, 3], key=3)
RIGHT = make_group([1.0, 1.0], num_tokens=[2, 2], key=4)
DROPPED = ResponseGroup(make_pool([0.0, 0.0], key=5), ())
GROUPS = [MIXED, EVEN, WRONG, RIGHT, DROPPED]
RULES = [
    BatchWhitenedAdvantage(advantage=GroupNormalizedAdvantage(normalize_std=False)),
    BatchWhitenedAdvantage(advantage=LeaveOneOutAdvantage(), by_tokens=True),
    ReinforcePlusPlusBaselineAdvantage(),
    AcceptedAdvantage(),
]


def centred(groups):
    """Reward minus the mean of the group, and tokens, of each response."""
    rows = [[kept.response for kept in group.kept] for group in groups]
    values = [r.reward - np.mean([s.reward for s in row]) for row in rows for r in row]
    return np.array(values), np.array([len(r.response_ids) for row in rows for r in row])


def flat(rows):
    return [value for row in rows for value in row]


def test_whitening_is_the_z_score_over_the_whole_rollout():
    values, _ = centred(GROUPS)
    expected = values / (values.std(ddof=1) + 1e-8)
    assert flat(RULES[0].assign(GROUPS)) == pytest.approx(expected.tolist(), rel=1e-6)


def test_reinforce_plus_plus_whitens_over_tokens_as_the_published_code():
    values, tokens = centred(GROUPS)
    repeated = np.repeat(values, tokens)
    expected = (values - repeated.mean()) / (repeated.std(ddof=1) + 1e-8)
    assert flat(ReinforcePlusPlusBaselineAdvantage().assign(GROUPS)) == pytest.approx(expected.tolist(), rel=1e-5)
    assert flat(ReinforcePlusPlusBaselineAdvantage(by_tokens=False).assign(GROUPS)) == flat(RULES[0].assign(GROUPS))


def test_groups_without_signal_keep_zeros_or_train_against_the_mean():
    by_response = with_advantages(RULES[0], GROUPS)
    assert [group.can_train for group in by_response] == [True, True, False, False, False]
    by_token = with_advantages(ReinforcePlusPlusBaselineAdvantage(), GROUPS)
    assert [group.can_train for group in by_token] == [True, True, True, True, False]
    advantages = {kept.advantage for group in by_token[2:4] for kept in group.kept}
    assert len(advantages) == 1  # all by the same amount


def test_a_rollout_without_any_signal_has_none():
    for rule in RULES[:3]:
        assert flat(rule.assign([WRONG, RIGHT])) == [0.0] * 4


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_one_of_the_whole_rollout_and_remembers_nothing(rule):
    assert isinstance(rule, RolloutAdvantage)
    first = rule.assign(GROUPS)
    rule.assign([EVEN])
    assert rule.assign(GROUPS) == first
    assert [len(row) for row in first] == [len(group.kept) for group in GROUPS]


@pytest.mark.parametrize("rule", RULES)
def test_order_of_groups_changes_nothing(rule):
    order = list(GROUPS)
    random.Random(1).shuffle(order)
    expected = dict(zip((group.pool.prompt.prompt_id for group in GROUPS), rule.assign(GROUPS), strict=True))
    for group, row in zip(order, rule.assign(order), strict=True):
        assert row == pytest.approx(expected[group.pool.prompt.prompt_id], rel=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("num_minibatches", "max_tokens"), [(1, 10_000), (1, 1), (3, 10_000), (3, 1)])
def test_any_split_of_the_rollout_trains_on_the_same_advantages(rule, num_minibatches, max_tokens):
    """Whitening a minibatch by itself would give others."""
    assigned = with_advantages(rule, GROUPS)
    batches = pack_groups(
        assigned,
        num_minibatches=num_minibatches,
        max_tokens_per_microbatch=max_tokens,
        policy_version=0,
        shuffle_seed=0,
        keep_groups_without_signal=True,
        share_prompts=True,
    )
    packed = torch.cat([rule(microbatch) for batch in batches for microbatch in batch])
    expected = torch.tensor([kept.advantage for group in assigned for kept in group.kept])
    torch.testing.assert_close(packed.sort().values, expected.sort().values)


def test_a_rule_of_the_whole_rollout_cannot_be_whitened_once_more():
    with pytest.raises(
        ValueError, match=r"advantage.advantage must be the rule of a group; AcceptedAdvantage looks at"
    ):
        BatchWhitenedAdvantage(advantage=AcceptedAdvantage())


class TestAccepted:
    def test_positives_weigh_1_and_train_without_any_contrast(self):
        assigned = with_advantages(AcceptedAdvantage(), GROUPS)
        assert [[kept.advantage for kept in group.kept] for group in assigned[:2]] == [[1, 0, 0], [1, 1, 0, 0, 0]]
        assert [group.can_train for group in assigned] == [True, True, False, True, False]

    def test_packing_leaves_out_prompts_without_a_positive_and_counts_them(self):
        (batch,) = pack_groups(
            with_advantages(AcceptedAdvantage(), GROUPS),
            num_minibatches=1,
            max_tokens_per_microbatch=10_000,
            policy_version=0,
            shuffle_seed=0,
            keep_groups_without_signal=False,
            share_prompts=True,
        )
        (microbatch,) = batch.microbatches
        assert microbatch.rewards_B.numel() == 3 + 5 + 2
        assert batch.counts.num_prompts == 5

    def test_positives_selection_keeps_them_all_in_launch_order(self):
        pool = make_pool([0.0, 1.0, 0.0, 1.0])
        kept = PositivesSelection().select(pool)
        assert [(k.response.sample_index, k.selection_weight) for k in kept] == [(1, 1.0), (3, 1.0)]
        assert PositivesSelection().select(make_pool([0.0, 0.0])) == ()

    def test_masked_positives_do_not_train(self):
        pool = make_pool([1.0, 1.0, 0.0])
        pool.responses[0] = replace(pool.responses[0], is_masked=True)
        (kept,) = PositivesSelection().select(pool)
        assert (kept.response.sample_index, kept.selection_weight) == (1, 2.0)


def test_an_assigned_zero_does_not_hide_a_signal_of_rewards():
    """Rules of a group assign nothing; their groups train as before."""
    assert MIXED.has_signal
    assert not RIGHT.has_signal
    kept = tuple(replace(k, advantage=0.5) for k in RIGHT.kept)
    assert ResponseGroup(RIGHT.pool, kept).can_train
    assert not ResponseGroup(RIGHT.pool, kept).has_signal  # its responses are not told apart
    assert group_microbatch(ResponseGroup(RIGHT.pool, kept)).assigned_advantage_B.tolist() == [0.5, 0.5]
