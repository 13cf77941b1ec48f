"""Whitening over a rollout, RAFT's rule, and what packing makes of assigned advantages."""

from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages import BatchWhitenedAdvantage, GroupNormalizedAdvantage, LeaveOneOutAdvantage
from ada_lightning.methods.functional import whitened
from ada_lightning.methods.published.raft import AcceptedAdvantage
from ada_lightning.training.packing import group_microbatch, pack_groups
from tests.builders import make_group, make_pool, weighed

MIXED = make_group([1.0, 0.0, 0.0], num_tokens=[2, 4, 6], key=1)
EVEN = make_group([1.0, 1.0, 0.0, 0.0, 0.0], num_tokens=[1, 2, 3, 4, 5], key=2)  # ragged: 5 responses
WRONG = make_group([0.0, 0.0], num_tokens=[3, 3], key=3)
RIGHT = make_group([1.0, 1.0], num_tokens=[2, 2], key=4)
DROPPED = ResponseGroup(make_pool([0.0, 0.0], key=5), ())
GROUPS = [MIXED, EVEN, WRONG, RIGHT, DROPPED]
REINFORCE_PLUS_PLUS = BatchWhitenedAdvantage(advantage=GroupNormalizedAdvantage(normalize_std=False), by_tokens=True)
RULES = [
    BatchWhitenedAdvantage(advantage=GroupNormalizedAdvantage(normalize_std=False)),
    BatchWhitenedAdvantage(advantage=LeaveOneOutAdvantage(), by_tokens=True),
    REINFORCE_PLUS_PLUS,
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
    assert flat(REINFORCE_PLUS_PLUS.assign(GROUPS)) == pytest.approx(expected.tolist(), rel=1e-5)


def test_groups_without_signal_keep_zeros_or_train_against_the_mean():
    by_response = weighed(RULES[0], GROUPS)
    assert [bool(group.trained) for group in by_response] == [True, True, False, False, False]
    by_token = weighed(REINFORCE_PLUS_PLUS, GROUPS)
    assert [bool(group.trained) for group in by_token] == [True, True, True, True, False]
    advantages = {kept.advantage for group in by_token[2:4] for kept in group.kept}
    assert len(advantages) == 1  # all by the same amount


def test_a_rollout_without_any_signal_has_none():
    for rule in RULES:
        assert flat(rule.assign([WRONG, RIGHT])) == [0.0] * 4


@pytest.mark.parametrize("values", [[], [3.0], [0.5, 0.5, 0.5], [0.1] * 7])
def test_without_spread_there_is_nothing(values):
    assert whitened(values, [1.0] * len(values), epsilon=1e-8) == [0.0] * len(values)


def test_rounding_of_a_mean_does_not_give_zeros_a_value():
    """Centred in float32: the mean of the mixed group is 1e-8 and not 0."""
    result = whitened([2 / 3 + 3e-8, -1 / 3, -1 / 3, 0.0, 0.0], [1.0] * 5, epsilon=1e-8)
    assert result[3:] == [0.0, 0.0]
    assert whitened([1.0, 0.0, 0.0], [1.0] * 3, epsilon=1e-8)[1] < -0.5  # a mean that is there is subtracted


def test_accepted_responses_weigh_1_and_train_without_any_contrast():
    groups = weighed(AcceptedAdvantage(), GROUPS)
    assert [[kept.advantage for kept in group.kept] for group in groups[:2]] == [[1, 0, 0], [1, 1, 0, 0, 0]]
    assert [bool(group.trained) for group in groups] == [True, True, False, True, False]
    (batch,) = pack_groups(
        groups, num_minibatches=1, max_tokens_per_microbatch=10_000, policy_version=0, shuffle_seed=0,
        keep_groups_without_signal=False, share_prompts=True,
    )  # fmt: skip
    (microbatch,) = batch.microbatches  # of what is accepted, and yet
    assert microbatch.rewards_B.tolist() == [1.0] * 5
    assert batch.counts.num_prompts == 5


def test_a_group_has_a_signal_where_rewards_or_advantages_differ_and_trains_where_one_is_not_0():
    assert (MIXED.has_signal, bool(MIXED.trained)) == (True, True)  # before advantages are assigned
    assert (RIGHT.has_signal, bool(RIGHT.trained)) == (False, False)
    nothing, alike, apart = (RIGHT.with_advantages(row) for row in ([0.0, 0.0], [0.5, 0.5], [0.5, -0.5]))
    assert (nothing.has_signal, bool(nothing.trained)) == (False, False)
    assert (alike.has_signal, bool(alike.trained)) == (False, True)  # its responses are not told apart
    assert (apart.has_signal, bool(apart.trained)) == (True, True)
    inert = MIXED.with_advantages([0.0] * 3)
    assert (inert.has_signal, bool(inert.trained)) == (False, False)
    assert group_microbatch(alike).advantage_B.tolist() == [0.5, 0.5]
