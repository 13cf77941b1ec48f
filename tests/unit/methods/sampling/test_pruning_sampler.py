from __future__ import annotations

import math

import pytest
import torch

from ada_lightning.core.records import Belief
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.methods.published.pruning import PruningSampler, PruningSelection
from ada_lightning.training.losses import ConstantReduction
from ada_lightning.training.packing import pack_groups
from tests.builders import make_pool, weighed
from tests.unit.methods.sampling.planning import collected

BELIEFS = {1: Belief(1, 30), 2: Belief(5, 5), 3: Belief(30, 1), 4: Belief(4, 6)}
PASS_RATES = {1: 0.1, 2: 0.5, 3: 0.9, 4: 0.4}


def make_sampler(rate=0.5, seen=(1, 2, 3, 4)):
    sampler = PruningSampler(group_size=4, rate=rate, seed=0)
    sampler.learn([make_pool([1.0, 0.0], key=key) for key in seen])
    return sampler


def collect(sampler, step, selection=None):
    return collected(sampler, PASS_RATES, beliefs=list(BELIEFS.values()), selection=selection, step=step)


def test_prompts_of_little_expected_advantage_are_left_out_as_often_as_asked():
    sampler = make_sampler()
    counts = dict.fromkeys(PASS_RATES, 0)
    num_steps = 200
    for step in range(num_steps):
        groups, stats = collect(sampler, step)
        drawn = [group.pool for group in groups if group.pool.num_drawn]
        assert stats.num_drawn == 4 * len(drawn)  # nothing is generated for the others
        assert len(groups) == 4  # and they count in the denominator
        for group in groups:
            key = int(group.pool.prompt.prompt_id[1:])
            counts[key] += group.pool.num_drawn > 0
            assert group.pool.inverse_probability == (2.0 if key in (1, 3) else 1.0)
            assert group.pool.is_resolved or group.pool.num_drawn
    assert counts[2] == counts[4] == num_steps
    for key in (1, 3):
        assert abs(counts[key] / num_steps - 0.5) < 4 * math.sqrt(0.25 / num_steps)


def step_advantage(groups):
    """Sum of advantage times a fixed vector of each prompt's: what an update is linear in."""
    groups = weighed(PoolMeanAdvantage(normalize_std=True), groups)
    (batch,) = pack_groups(
        groups, num_minibatches=1, max_tokens_per_microbatch=10_000, policy_version=0, shuffle_seed=0,
        keep_groups_without_signal=False, share_prompts=False,
    )  # fmt: skip
    result = torch.zeros(10, dtype=torch.float64)
    for microbatch in batch:
        advantages_B = microbatch.advantage_B * microbatch.inverse_probability_B
        weights_B = ConstantReduction(token_scale=1.0).token_weights(microbatch, batch.counts)
        starts = (microbatch.position_ids_T == 0).nonzero()[:, 0]
        keys_B = microbatch.input_ids_T[starts]
        row_B = keys_B + 5 * microbatch.is_positive_B
        result.index_add_(0, row_B, (advantages_B * weights_B).double())
    return result


@pytest.mark.long
def test_with_both_levels_the_mean_update_is_that_of_everything():
    """The same steps with and without pruning; four standard errors of the mean difference."""
    num_steps = 600
    whole = make_sampler(rate=0.0)
    pruned = make_sampler(rate=0.6)
    of_whole = torch.stack([step_advantage(collect(whole, step)[0]) for step in range(num_steps)])
    of_pruned = torch.stack(
        [step_advantage(collect(pruned, step, PruningSelection(rate=0.5))[0]) for step in range(num_steps)]
    )
    differences = of_pruned - of_whole
    error = (differences.var(0).sum() / num_steps).sqrt()
    assert float(differences.mean(0).norm()) < 4 * float(error)
    assert float(error) < 0.05 * float(of_whole.mean(0).norm())  # it could have seen a bias of a fifth


def test_unseen_prompts_and_equal_beliefs_are_never_pruned():
    for step in range(20):
        groups, _ = collect(make_sampler(rate=0.9, seen=()), step)
        assert all(group.pool.num_drawn == 4 for group in groups)
    sampler = make_sampler(rate=0.9)
    pools = [make_pool([], slot=slot, key=slot + 1) for slot in range(4)]
    sampler.plan(pools)
    assert [sampler.num_to_draw(pool) for pool in pools] == [4] * 4


def test_a_repeated_or_resumed_step_leaves_out_the_same():
    sampler, restored = make_sampler(), make_sampler(seen=())
    restored.load_state_dict(sampler.state_dict())
    for step in range(8):
        first = [group.pool.num_drawn for group in collect(sampler, step)[0]]
        assert [group.pool.num_drawn for group in collect(sampler, step)[0]] == first
        assert [group.pool.num_drawn for group in collect(restored, step)[0]] == first
