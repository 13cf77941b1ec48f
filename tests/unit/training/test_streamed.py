"""Gradients of prompts that end early, computed before the others: the update stays what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lightning.pytorch import Trainer

from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.losses import (
    ClippedPolicyLoss,
    ConstantReduction,
    FlowRlLoss,
    PartitionHead,
    PromptMeanReduction,
    ResponseMeanReduction,
    TokenMeanReduction,
)
from ada_lightning.training.losses.terms import LossReduction
from ada_lightning.training.streamed import StreamedGradients
from tests.builders import packed, random_group
from tests.unit.training.test_policy import EXACT, QUIET, Batches, make_policy, weights

GROUPS = [random_group(key, [1.0, 0.0, 0.0, 1.0][: 2 + key % 3]) for key in range(6)]
GROUPS += [random_group(6, [0.0, 0.0])]  # nothing to train, and counted all the same
MAX_TOKENS = 40
BEGINS_AGAIN = object()
REDUCTIONS = {
    "constant": ConstantReduction(token_scale=8),
    "prompt_mean": PromptMeanReduction(token_scale=8),
    "response_mean": ResponseMeanReduction(),
    "token_mean": TokenMeanReduction(),
}


def with_advantages(policy, groups):
    return [group.with_advantages(row) for group, row in zip(groups, policy.advantages(groups), strict=True)]


class Streaming(Batches):
    """One step of which some pools end before the rollout does."""

    def __init__(self, policy, early, *, keep_all=False, lag=None, groups=GROUPS):
        super().__init__([None])
        self.policy, self.early, self.lag, self.groups = policy, early, lag, groups
        self.options = {"keep_groups_without_signal": keep_all, "max_tokens_per_microbatch": MAX_TOKENS}
        self.streamed = StreamedGradients(
            policy, AllSelection(), lambda groups: packed(*groups, **self.options), max_tokens=MAX_TOKENS
        )

    def __iter__(self):
        for parameter in self.policy.model.parameters():  # of a step that was interrupted
            parameter.grad = torch.ones_like(parameter)
        self.streamed.begin(0, lag=self.lag)
        begin = self.streamed.following(0, lambda: None)
        begin()
        for pool in self.early:
            begin() if pool is BEGINS_AGAIN else self.streamed.note(pool)
            self.streamed.check_and_compute()
        groups = with_advantages(self.policy, self.groups)
        self.part = self.streamed.take(groups)
        computed = {id(group.pool) for group in self.part.groups}
        batch = packed(*groups, is_computed=lambda group: id(group.pool) in computed, **self.options)
        yield replace(batch, streamed=self.part, lag=self.lag)


def pools(*keys):
    return [GROUPS[key].pool for key in keys]


def trained(policy, early=(), **options):
    """Weights after one update, its figures, and what was streamed of it."""
    data = Streaming(policy, early, **options)
    Trainer(**QUIET).fit(policy, datamodule=data)
    figures = {name: value for name, value in policy.update_metrics.items() if name != "train/streamed_ratio"}
    return weights(policy), figures, data.part


def assert_same(found, whole):
    torch.testing.assert_close(found[0], whole[0], **EXACT)
    assert found[1] == pytest.approx(whole[1], rel=1e-4, abs=1e-5)


@pytest.fixture
def made(tiny_path):
    """Make the same policy as often as asked."""

    def make(loss=None, **options):
        return make_policy(
            tiny_path,
            loss=loss or ClippedPolicyLoss(reduction=REDUCTIONS["token_mean"]),
            advantage=GroupNormalizedAdvantage(),
            **{"lr": 1.0} | options,
        )

    return make


@pytest.mark.thinned(4)
@pytest.mark.parametrize("early", [(5, 3, 6, 0), range(7)], ids=["some", "all"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_update_is_that_of_a_rollout_which_was_waited_for(made, reduction, early):
    loss = ClippedPolicyLoss(reduction=REDUCTIONS[reduction])
    before, whole = weights(made(loss)), trained(made(loss))
    policy = made(loss)
    found = trained(policy, pools(*early))
    assert_same(found, whole)
    assert max(float((before[name] - after).abs().max()) for name, after in found[0].items()) > 1e-3
    assert 0 < policy.update_metrics["train/streamed_ratio"] <= 1


@pytest.mark.parametrize(
    ("loss", "lag"),
    [
        (lambda: ClippedPolicyLoss(reduction=REDUCTIONS["response_mean"], kl_coef=0.1, entropy_coef=0.1), None),
        (lambda: FlowRlLoss(reduction=REDUCTIONS["token_mean"], partition=PartitionHead(learning_rate=1e-3)), None),
        (lambda: ClippedPolicyLoss(reduction=REDUCTIONS["token_mean"], anchor="behaviour", importance_cap=0.0), 0),
    ],
    ids=["kl and entropy", "parameters of its own", "an older policy"],
)
def test_whatever_the_loss_is_made_of(made, loss, lag):
    whole = trained(made(loss()), keep_all=True, lag=lag)
    found = trained(made(loss()), pools(5, 3, 6, 0), keep_all=True, lag=lag)
    assert found[2].microbatches
    assert_same(found, whole)
    assert lag is None or found[1]["staleness/kl"] > 0


def test_little_waits_for_the_rest(made):
    *found, part = trained(policy := made(), pools(4))
    assert not part.groups
    assert policy.update_metrics["train/streamed_ratio"] == 0
    assert_same(found, trained(made()))


LOST = random_group(5, [0.0, 1.0, 1.0, 1.0]).pool


def test_what_was_computed_before_an_engine_broke_is_void(made):
    """Its pools are others, whatever they hold: the step begins again, and is streamed then."""
    *found, part = trained(made(), [LOST, *pools(3, 1), BEGINS_AGAIN, *pools(5, 3, 1, 0)])
    assert part.groups
    assert all(group.pool is GROUPS[group.pool.slot].pool for group in part.groups)
    assert_same(found, trained(made()))


def test_what_the_step_does_not_have_is_not_trained_on(made):
    """Whoever gave it: a selection that looks at all pools, say."""
    with pytest.warns(RuntimeWarning, match="differently in their step than alone"):
        *found, part = trained(made(), [LOST, *pools(3, 1, 5, 0)])
    assert not part.groups
    assert_same(found, trained(made()))


def test_pools_of_steps_to_come_wait_for_their_turn(made):
    later = [replace(pool, step=1) for pool in pools(0, 1, 2)]
    found = trained(made(), [*later, *pools(5, 3, 6, 0)])
    assert all(group.pool.step == 0 for group in found[2].groups)
    assert_same(found, trained(made()))


@pytest.mark.parametrize("fails_at", [1, 4])
@pytest.mark.filterwarnings(
    "ignore:an update ran out of memory", "ignore:rollout.stream_gradients. there is not enough memory"
)
def test_without_memory_all_of_the_step_is_computed_by_its_update(made, fails_at):
    """Either while the rollout goes on, or afterwards, when what was streamed is lost with the failed attempt."""
    policy = made()
    loss, calls = policy.microbatch_loss, []

    def fails_once(microbatch, batch):
        calls.append(microbatch)
        if len(calls) == fails_at:
            loss(microbatch, batch)[0].backward()
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss(microbatch, batch)

    policy.microbatch_loss = fails_once
    found = trained(policy, pools(5, 3, 6, 0))
    assert bool(found[2].groups) == (fails_at != 1)
    assert len(calls) > fails_at
    whole = trained(made())
    assert policy.num_memory_retries == 1
    computed = "train/computed_tokens", "train/memory_retries"  # halves of a document have its prompt twice
    for name in computed:
        del found[1][name], whole[1][name]
    assert_same(found, whole)


class Crooked(LossReduction):
    """Divides the first prompts by one number and the last ones by another."""

    def token_weights(self, microbatch, counts):
        is_last = microbatch.group_size_B > 3
        return 1 / torch.where(is_last, counts.num_prompts, counts.num_response_tokens)


def test_a_rule_that_is_no_factor_of_the_sum_is_refused(made):
    with pytest.raises(RuntimeError, match="Crooked does not divide all responses alike"):
        trained(made(ClippedPolicyLoss(reduction=Crooked())), pools(5, 3, 6, 0))
