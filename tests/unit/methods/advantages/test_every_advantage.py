"""What holds for every advantage: one number per kept response, however a rollout is ordered and split."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ada_lightning.core.options import OPTIONS
from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import Belief, KeptResponse, ResponseGroup
from ada_lightning.core.stopping import FixedRule
from ada_lightning.methods import published
from ada_lightning.methods.advantages import (
    BatchWhitenedAdvantage,
    ExactAdvantage,
    GroupNormalizedAdvantage,
    HistoryBaselineAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    RoundedHistoryAdvantage,
    StratifiedAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.pass_rates import PathCountingRate, PosteriorRate
from ada_lightning.methods.published.gdpo import GdpoAdvantage
from ada_lightning.methods.published.max_rl import MaxRlAdvantage
from ada_lightning.methods.published.preference import DpoAdvantage, IpoAdvantage
from ada_lightning.methods.published.raft import AcceptedAdvantage
from ada_lightning.methods.published.representation_preference import RepresentationPreferenceAdvantage
from ada_lightning.methods.published.reward_distillation import RewardDistillationAdvantage
from ada_lightning.methods.published.shrinkage_baseline import ShrinkageBaselineAdvantage
from ada_lightning.methods.published.xrpo import NoveltyAdvantage
from ada_lightning.training.packing import pack_groups
from tests.builders import make_pool, weighed


def connected(rule):
    """Compares with an initial policy under which long and late responses were less probable."""
    rule.connect(
        lambda group: [len(kept.response.response_ids) - 0.3 * kept.response.sample_index for kept in group.kept],
        lambda group: [
            [float(len(kept.response.response_ids)), float(kept.response.sample_index % 3), group.pool.slot / 3]
            for kept in group.kept
        ],
    )
    return rule


RULES = [
    AcceptedAdvantage(),
    BatchWhitenedAdvantage(advantage=LeaveOneOutAdvantage()),
    BatchWhitenedAdvantage(advantage=ExactAdvantage(objective=LogObjective()), by_tokens=True),
    connected(DpoAdvantage()),
    connected(IpoAdvantage()),
    connected(RepresentationPreferenceAdvantage()),
    connected(RewardDistillationAdvantage()),
    ExactAdvantage(objective=LogObjective()),
    GdpoAdvantage(weights={"correct": 1.0}),
    GroupNormalizedAdvantage(),
    HistoryBaselineAdvantage(),
    RoundedHistoryAdvantage(),
    ShrinkageBaselineAdvantage(),
    LeaveOneOutAdvantage(),
    MaxRlAdvantage(),
    NoveltyAdvantage(),
    PoolMeanAdvantage(weight_power=1.0),
    PoolMeanAdvantage(pass_rate=PosteriorRate()),
    BatchWhitenedAdvantage(advantage=GroupNormalizedAdvantage(normalize_std=False), by_tokens=True),
    StratifiedAdvantage(objective=LogObjective(), pass_rate=PathCountingRate()),
    WeightedLeaveOneOutAdvantage(),
]


@st.composite
def rollouts(draw):
    """Groups of distinct prompts; one may keep a part of its pool, or nothing."""
    groups = []
    for key, rewards in enumerate(
        draw(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=6), max_size=5))
    ):
        lengths = draw(st.lists(st.integers(1, 4), min_size=len(rewards), max_size=len(rewards)))
        pool = make_pool(rewards, slot=key, key=key, num_tokens=lengths)
        for response in pool.responses:
            object.__setattr__(response, "components", {"correct": response.reward})
        pool.rule, pool.belief = FixedRule(len(rewards)), Belief(1.0 + key, 2.0)
        num_kept = draw(st.integers(0, len(rewards)))
        kept = [KeptResponse(response, len(rewards) / num_kept) for response in pool.responses[:num_kept]]
        groups.append(ResponseGroup(pool, tuple(kept)))
    return groups


def by_response(groups):
    return {(g.pool.slot, k.response.sample_index): k.advantage for g in groups for k in g.kept}


def test_none_is_left_out():
    for module in iter_modules(published.__path__, f"{published.__name__}."):
        import_module(module.name)
    assert {option.kind for option in OPTIONS["advantage"].values()} <= {type(rule) for rule in RULES}
    assert all(isinstance(rule, Advantage) for rule in RULES)


@pytest.mark.filterwarnings("ignore:no response of this step")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@given(groups=rollouts(), data=st.data())
def test_neither_order_nor_split_nor_an_earlier_rollout_changes_an_advantage(rule, groups, data):
    found = weighed(rule, groups)
    assert [len(group.kept) for group in found] == [len(group.kept) for group in groups]
    shuffled = data.draw(st.permutations(groups))
    assert by_response(weighed(rule, shuffled)) == pytest.approx(by_response(found), rel=1e-9, abs=1e-12)
    assert by_response(weighed(rule, groups)) == by_response(found)
    batches = pack_groups(
        found, policy_version=0, keep_groups_without_signal=True, num_minibatches=data.draw(st.integers(1, 3)),
        max_tokens_per_microbatch=data.draw(st.sampled_from([1, 12, 1000])), shuffle_seed=data.draw(st.integers(0, 9)),
        share_prompts=data.draw(st.booleans()),
    )  # fmt: skip
    packed = sorted(value for batch in batches for microbatch in batch for value in microbatch.advantage_B.tolist())
    assert packed == pytest.approx(sorted(by_response(found).values()), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("rewards", [[0.0] * 4, [1.0] * 3, [0.1] * 3, [0.0], [1.0]])
def test_equal_rewards_have_no_advantage_unless_the_rule_says_so(rule, rewards):
    """Exactly: what packing relies on when it leaves groups out."""
    if Trait.TRAINS_EQUAL_REWARDS in rule.traits:
        return
    pool = make_pool(rewards)
    kept = tuple(KeptResponse(response, 1.0) for response in pool.responses)
    assert rule.assign([ResponseGroup(pool, kept)]) == [[0.0] * len(rewards)]


def test_a_rule_without_a_rule_says_what_it_lacks():
    pool = make_pool([1.0, 0.0])
    with pytest.raises(NotImplementedError, match=r"Advantage needs a method of_group\(group\), or assign"):
        Advantage().assign([ResponseGroup(pool, tuple(KeptResponse(r, 1.0) for r in pool.responses))])
