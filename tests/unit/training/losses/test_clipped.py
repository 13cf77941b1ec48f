"""The loss against numbers worked out by hand, and every reduction against its definition."""

from __future__ import annotations

import math

import pytest
import torch

from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.methods.selection import BalancedSelection
from ada_lightning.training.losses import (
    ClippedPolicyLoss,
    ConstantReduction,
    PromptMeanReduction,
    ResponseMeanReduction,
    TokenMeanReduction,
    TokenTerms,
)
from ada_lightning.training.packing import pack_groups
from tests.builders import make_group, make_pool, weighed

# One prompt, a right response of 2 tokens and a wrong one of 1 token; pool mean 1/2, so advantages +1/2 and -1/2.
# Ratios: right response e^0.5 = 1.6487 (clipped at 1.28) and 1; wrong response e^-0.5 = 0.6065 (clipped at 0.8).
OLD = [-1.0, -2.0, -1.5]
NEW = [-0.5, -2.0, -2.0]
SAMPLING = [-1.0, -2.0 - math.log(4), -1.5 + math.log(2)]  # importance weights 1, 4 (capped at 2), 1/2


@pytest.fixture
def batch():
    (batch,) = pack_groups(
        weighed(
            PoolMeanAdvantage(),
            [make_group([1.0, 0.0], num_tokens=[2, 1]), make_group([0.0, 0.0], num_tokens=[1, 4], key=8)],
        ),
        num_minibatches=1,
        max_tokens_per_microbatch=1000,
        policy_version=0,
        shuffle_seed=0,
        keep_groups_without_signal=False,
        share_prompts=True,
    )
    return batch


def terms(**changes):
    fields = {
        "logprobs_K": torch.tensor(NEW, requires_grad=True),
        "old_logprobs_K": torch.tensor(OLD),
        "sampling_logprobs_K": torch.tensor(SAMPLING),
        "reference_logprobs_K": torch.tensor([-0.5, -1.0, -2.0]),
        "entropy_K": torch.tensor([0.3, 0.2, 0.1]),
        "response_K": torch.tensor([0, 0, 1]),
        "mask_K": torch.ones(3),
    }
    return TokenTerms(**{**fields, **changes})


def loss_of(batch, the_terms=None, **options):
    loss = ClippedPolicyLoss(**{"reduction": ConstantReduction(token_scale=10), "importance_cap": 0.0, **options})
    (microbatch,) = batch.microbatches
    return loss(the_terms or terms(), microbatch.advantage_B, microbatch, batch.counts)


def test_clipped_loss_by_hand(batch):
    """-(1.28 * 0.5 + 1 * 0.5 + 0.8 * -0.5) / (2 prompts * 10 tokens)."""
    loss, sums = loss_of(batch)
    assert float(loss) == pytest.approx(-(0.64 + 0.5 - 0.4) / 20, rel=1e-6)
    assert float(sums["clip_ratio"]) == 2


def test_gradient_is_zero_where_the_clip_is_active(batch):
    the_terms = terms()
    loss, _ = loss_of(batch, the_terms)
    loss.backward()
    torch.testing.assert_close(the_terms.logprobs_K.grad, torch.tensor([0.0, -0.5 / 20, 0.0]))


def test_on_policy_gradient_is_the_advantage(batch):
    """Ratios are 1: nothing is clipped, and d loss / d logprob = -A / (prompts * scale)."""
    the_terms = terms(logprobs_K=torch.tensor(OLD, requires_grad=True))
    loss, sums = loss_of(batch, the_terms)
    loss.backward()
    torch.testing.assert_close(the_terms.logprobs_K.grad, torch.tensor([-0.5, -0.5, 0.5]) / 20)
    assert float(sums["clip_ratio"]) == 0


def test_importance_weights_are_capped_and_multiply_the_objective(batch):
    loss, sums = loss_of(batch, importance_cap=2.0)
    assert float(loss) == pytest.approx(-(0.64 * 1 + 0.5 * 2 - 0.4 * 0.5) / 20, rel=1e-6)
    assert float(sums["importance_weight"]) == pytest.approx(3.5)
    assert float(sums["logprob_gap"]) == pytest.approx(math.log(4) + math.log(2), rel=1e-6)
    assert float(sums["logprob_gap_max"]) == pytest.approx(math.log(4), rel=1e-6)


def test_kl_is_the_k3_estimate(batch):
    """d = 0, 1, 0 nats: k3 = 0, e - 2, 0."""
    loss, sums = loss_of(batch, kl_coef=0.1)
    assert float(sums["kl"]) == pytest.approx(math.e - 2, rel=1e-6)
    assert float(loss) == pytest.approx(-(0.74 - 0.1 * (math.e - 2)) / 20, rel=1e-6)


def test_entropy_bonus_lowers_the_loss(batch):
    loss, _ = loss_of(batch, entropy_coef=0.5)
    assert float(loss) == pytest.approx(-(0.74 + 0.5 * 0.6) / 20, rel=1e-6)


@pytest.fixture
def selected():
    """A right response of 2 tokens, kept, and three wrong ones, of which one, of 1 token, is: N/m of 1 and 3.

    The weights (N_s / m_s)(n / N) are 1/2 and 3/2.
    """
    pool = make_pool([1.0, 0.0, 0.0, 0.0], num_tokens=[2, 1, 5, 5])
    (batch,) = pack_groups(
        weighed(PoolMeanAdvantage(), [ResponseGroup(pool, BalancedSelection(group_size=2).select(pool))]),
        num_minibatches=1,
        max_tokens_per_microbatch=1000,
        policy_version=0,
        shuffle_seed=0,
        keep_groups_without_signal=False,
        share_prompts=True,
    )
    return batch


def test_kl_counts_as_in_the_pool_that_was_selected_from(selected):
    """k3 by token: 0, e - 2 (right), 0 (wrong): only the right response's half weight remains."""
    loss, sums = loss_of(selected, kl_coef=0.1)
    plain, _ = loss_of(selected)
    assert float(sums["kl"]) == pytest.approx(0.5 * (math.e - 2), rel=1e-6)
    assert float(loss - plain) == pytest.approx(0.1 * 0.5 * (math.e - 2) / 10, rel=1e-5)


def test_entropy_counts_as_in_the_pool_that_was_selected_from(selected):
    """0.3 and 0.2 nats of the right response, 0.1 of the wrong one: 0.5 * 0.5 + 1.5 * 0.1 = 0.4."""
    loss, sums = loss_of(selected, entropy_coef=0.5)
    plain, _ = loss_of(selected)
    assert float(sums["entropy"]) == pytest.approx(0.4, rel=1e-6)
    assert float(loss - plain) == pytest.approx(-0.5 * 0.4 / 10, rel=1e-5)
    assert float(sums["pool_weight"]) == pytest.approx(0.5 * 2 + 1.5 * 1)


def test_selection_changes_no_other_sum(selected, batch):
    """They speak of the tokens that train; the microbatches hold the same tokens."""
    _, sums = loss_of(selected, importance_cap=2.0)
    _, whole = loss_of(batch, importance_cap=2.0)
    for name in ("clip_ratio", "logprob_gap", "logprob_gap_max", "importance_weight"):
        assert float(sums[name]) == float(whole[name])


@pytest.mark.parametrize(
    ("reduction", "weights"),
    [
        (ConstantReduction(token_scale=10), [1 / 20, 1 / 20]),
        (PromptMeanReduction(token_scale=10), [1 / 40, 1 / 40]),
        (ResponseMeanReduction(), [1 / (4 * 2), 1 / (4 * 1)]),
        (TokenMeanReduction(), [1 / 8, 1 / 8]),
    ],
)
def test_reductions_follow_their_definitions(batch, reduction, weights):
    """2 prompts, 4 responses, 8 response tokens were kept; the prompt without signal counts in all of them."""
    (microbatch,) = batch.microbatches
    torch.testing.assert_close(reduction.token_weights(microbatch, batch.counts), torch.tensor(weights))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_low": 1.5}, r"clip_low must be in \[0, 1\]; got 1.5"),
        ({"clip_high": -0.1, "kl_coef": -1}, "clip_high must not be negative; got -0.1; loss.kl_coef"),
    ],
)
def test_bad_coefficients_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        ClippedPolicyLoss(reduction=TokenMeanReduction(), **options)


def test_a_constant_of_zero_is_rejected():
    with pytest.raises(ValueError, match="token_scale must be positive; got 0"):
        ConstantReduction(token_scale=0)


def test_what_needs_more_than_the_advantage_says_so():
    assert not ClippedPolicyLoss(reduction=TokenMeanReduction()).needs_groups_without_signal
    assert ClippedPolicyLoss(reduction=TokenMeanReduction(), kl_coef=0.1).needs_groups_without_signal
    assert ClippedPolicyLoss(reduction=TokenMeanReduction(), entropy_coef=0.1).needs_groups_without_signal
    assert ClippedPolicyLoss(reduction=TokenMeanReduction(), kl_coef=0.1).needs_reference
