"""FlowRL by hand, against a plain implementation, and on a problem whose log Z is known."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.training.losses import FlowRlLoss, PartitionHead, ResponseMeanReduction, TokenMeanReduction
from ada_lightning.training.losses.flow import prompt_means
from tests.builders import make_group, packed
from tests.device import DEVICE
from tests.unit.training.losses.two_responses import OLD, make_terms
from tests.unit.training.test_policy import GROUPS, move, pack
from tests.unit.training.test_policy import gradients as model_gradients
from tests.unit.training.test_policy import make_policy as make_any_policy

# A prompt of 3 tokens, a response of 2 and one of 1, which share it. The prompt's mean hidden state is (1, 2).
HIDDEN = [[0.0, 3.0], [1.0, 1.0], [2.0, 2.0], [9.0, 9.0], [8.0, 8.0], [7.0, 7.0]]


def linear_head(weight, bias):
    """log Z = weight . mean + bias."""
    head = PartitionHead(learning_rate=1.0, num_layers=1)
    head.build(2)
    head.load_state_dict({"output.weight": torch.tensor([weight]), "output.bias": torch.tensor([bias])})
    return head


def make_loss(**options):
    defaults = {"reduction": ResponseMeanReduction(), "partition": linear_head([0.5, -0.5], 0.75), "beta": 0.5}
    return FlowRlLoss(**{**defaults, **options})


@pytest.fixture
def batch():
    return packed(make_group([1.0, 0.0], num_tokens=[2, 1]), keep_groups_without_signal=True)


def terms(**changes):
    fields = {"sampling_logprobs_K": torch.tensor(OLD), "hidden_TH": torch.tensor(HIDDEN, requires_grad=True)}
    return make_terms(**fields | changes)


def loss_of(batch, the_terms=None, advantages=(1.0, -1.0), **options):
    (microbatch,) = batch.microbatches
    return make_loss(**options)(the_terms or terms(), torch.tensor(advantages), microbatch, batch.counts)


def test_loss_by_hand(batch):
    """log Z = 0.5 - 1 + 0.75 = 0.25. Residuals 0.25 - 1.25 - 0.5 + 0.75 = -0.75 and 0.25 - 2 + 0.5 + 2 = 0.75;

    weights e^0.5 -> 1.2 and e^-0.5 -> 0.8; mean over two responses.
    """
    loss, sums = loss_of(batch)
    assert float(loss) == pytest.approx((1.2 + 0.8) * 0.75**2 / 2, rel=1e-6)
    assert float(sums["log_z"]) == pytest.approx(3 * 0.25)
    assert float(sums["balance_residual"]) == pytest.approx(3 * 0.75)
    assert float(sums["clip_ratio"]) == 3
    assert float(sums["sequence_weight"]) == pytest.approx(2 * 1.2 + 0.8)


def test_variants_of_the_loss_by_hand(batch):
    """The public code's weight is not clipped; a response kept by chance counts more and has the same residual."""
    free, sums = loss_of(batch, clip_low=1.0, clip_high=math.inf)
    assert float(free) == pytest.approx((math.exp(0.5) + math.exp(-0.5)) * 0.75**2 / 2, rel=1e-6)
    assert float(sums["clip_ratio"]) == 0
    by_tokens, _ = loss_of(batch, reduction=TokenMeanReduction())
    assert float(by_tokens) == pytest.approx((2 * 1.2 + 0.8) * 0.75**2 / 3, rel=1e-6)
    (microbatch,) = batch.microbatches
    chance = replace(microbatch, inverse_probability_B=torch.tensor([4.0, 1.0]))
    by_chance, _ = loss_of(replace(batch, microbatches=(chance,)), advantages=(4.0, -1.0))
    assert float(by_chance) == pytest.approx((4 * 1.2 + 0.8) * 0.75**2 / 2, rel=1e-6)


def test_gradients_by_hand(batch):
    """d loss / d logprob = 2 w residual / |y| / 2 responses; the weight has no gradient."""
    the_terms = terms()
    loss_of(batch, the_terms)[0].backward()
    expected = torch.tensor([1.2 * -0.75 / 2, 1.2 * -0.75 / 2, 0.8 * 0.75])
    torch.testing.assert_close(the_terms.logprobs_K.grad, expected)
    # only the prompt's three tokens, each a third of the mean, through both responses
    slope = torch.tensor([0.5, -0.5]) * (1.2 * -0.75 + 0.8 * 0.75) / 3
    torch.testing.assert_close(the_terms.hidden_TH.grad, torch.cat([slope.expand(3, 2), torch.zeros(3, 2)]))
    the_terms = terms()
    loss_of(batch, the_terms, train_hidden=False)[0].backward()
    assert the_terms.hidden_TH.grad is None


def test_a_mask_takes_a_tokens_gradient_and_no_value(batch):
    the_terms = terms(mask_K=torch.tensor([1.0, 0.0, 1.0]))
    loss, _ = loss_of(batch, the_terms)
    loss.backward()
    assert float(loss) == pytest.approx(float(loss_of(batch)[0]))
    assert the_terms.logprobs_K.grad.tolist() == pytest.approx([-0.45, 0.0, 0.6])


def test_each_response_has_the_mean_of_its_own_prompt():
    hidden = torch.arange(22.0)[:, None]
    means = prompt_means(hidden, [(3, 2, 4), (1, 5), (2, 2, 2, 1)])
    assert means.squeeze(-1).tolist() == [1.0, 1.0, 9.0, 15.5, 15.5, 15.5]
    with pytest.raises(ValueError, match="21 hidden states for documents of 22 tokens"):
        prompt_means(hidden[:21], [(3, 2, 4), (1, 5), (2, 2, 2, 1)])


# --- the whole policy ---------------------------------------------------------------------------------------------


def make_policy(tiny_path, *, dropout=0.0, num_layers=3, **options):
    head = PartitionHead(learning_rate=1e-2, dropout=dropout, num_layers=num_layers, seed=5)
    policy = make_any_policy(
        tiny_path,
        **{
            "advantage": GroupNormalizedAdvantage(),
            "loss": FlowRlLoss(reduction=ResponseMeanReduction(), partition=head),
            "optimizer": partial(torch.optim.AdamW, lr=1e-3),
            **options,
        },
    )
    move(policy, 0.02)
    return policy


def gradients(policy, batch):
    of_model = model_gradients(policy, [batch])
    return of_model | {f"loss.{name}": p.grad.to("cpu", copy=True) for name, p in policy.loss.named_parameters()}


def test_gradients_are_those_of_a_plain_implementation(tiny_path):
    """One response at a time through the model's own logits and hidden states, log Z by the head's layers in order."""
    policy = make_policy(tiny_path)
    (batch,) = pack(advantage=GroupNormalizedAdvantage(), keep_all=True)
    ours = gradients(policy, batch)
    policy.zero_grad()
    head = policy.loss.partition
    for group in GROUPS:
        rewards = torch.tensor([response.reward for response in group.pool.responses])
        normal = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        num_prompt = len(group.pool.prompt.prompt_ids)
        for reward, response in zip(normal, group.pool.responses, strict=True):
            tokens = torch.tensor([(*group.pool.prompt.prompt_ids, *response.response_ids)], device=DEVICE)
            both = []
            for model in (policy.model, policy.reference):
                output = model(input_ids=tokens, output_hidden_states=True)
                log_softmax = output.logits[0, num_prompt - 1 : -1].log_softmax(-1)
                both.append((output, log_softmax.gather(-1, tokens[0, num_prompt:, None]).mean()))
            (output, mean), (_, reference) = both
            units = output.hidden_states[-1][0, :num_prompt].mean(0)
            for linear, norm in zip(head.linears, head.norms, strict=True):
                units = norm(nn.functional.gelu(linear(units)))
            residual = head.output(units).squeeze() + mean - 15.0 * reward.to(DEVICE) - reference.detach()
            (residual**2 / 7).backward()  # seven responses; on-policy, so every weight is 1
    plain = {name: p.grad.cpu() for name, p in policy.model.named_parameters()}
    plain |= {f"loss.{name}": p.grad.cpu() for name, p in head.named_parameters(prefix="partition")}
    # gradients up to a few hundred: float32 sums in another order
    torch.testing.assert_close(ours, plain, atol=2e-3, rtol=1e-3)
    assert max(float(g.abs().max()) for g in plain.values()) > 1


@pytest.mark.parametrize("options", [{"max_tokens": 1}, {"share_prompts": False}])
def test_no_split_changes_a_gradient_dropout_included(tiny_path, options):
    policy = make_policy(tiny_path, dropout=0.5)
    normalised = {"advantage": GroupNormalizedAdvantage(), "keep_all": True}
    whole, split = (gradients(policy, pack(**normalised, **some)[0]) for some in ({}, options))
    torch.testing.assert_close(whole, split, atol=2e-3, rtol=1e-3)
    policy.loss.eval()
    without = gradients(policy, pack(**normalised)[0])
    assert float((whole["loss.partition.output.weight"] - without["loss.partition.output.weight"]).abs().max()) > 0.1


# --- log Z is learned ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_head_learns_log_z_of_two_arms():
    """One token, two arms: log Z = log sum_a pi_ref(a) e^(beta r_a), and pi(a) = pi_ref(a) e^(beta r_a) / Z.

    With residuals d_a, log pi(a) = log pi_ref(a) + beta r_a - log Z + d_a. Probabilities add up to 1, so the learned
    log Z differs from the true one by at most max |d_a| <= sqrt(2 loss), whatever the optimiser did.
    """
    reference, rewards, beta = torch.tensor([0.8, 0.2]).log(), torch.tensor([-0.5, 1.0]), 3.0
    batch = packed(make_group([0.0, 1.0], num_tokens=[1, 1]), keep_groups_without_signal=True)
    (microbatch,) = batch.microbatches
    head = PartitionHead(learning_rate=1e-2, dropout=0.0)
    head.build(4)
    loss = FlowRlLoss(reduction=ResponseMeanReduction(), partition=head, beta=beta)
    logits = torch.zeros(2, requires_grad=True)
    hidden = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.Adam([logits, *loss.parameters()], lr=1e-2)
    for _ in range(1500):
        logprobs_K = logits.log_softmax(0)
        the_terms = terms(
            logprobs_K=logprobs_K,
            old_logprobs_K=logprobs_K.detach(),
            sampling_logprobs_K=logprobs_K.detach(),
            reference_logprobs_K=reference,
            entropy_K=torch.zeros(2),
            response_K=torch.tensor([0, 1]),
            mask_K=torch.ones(2),
            hidden_TH=hidden,
        )
        value, sums = loss(the_terms, rewards, microbatch, batch.counts)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    bound = math.sqrt(2 * float(value)) + 1e-5  # float32
    log_z = torch.logsumexp(reference + beta * rewards, 0)
    assert abs(float(sums["log_z"]) / 2 - float(log_z)) <= bound < 0.01
    torch.testing.assert_close(logprobs_K, reference + beta * rewards - log_z, atol=2 * bound, rtol=0)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (make_loss, {"beta": 0.0}, "loss.beta must be positive and finite; got 0.0"),
        (make_loss, {"clip_low": 1.5}, r"loss.clip_low must be in \[0, 1\]; got 1.5"),
        (make_loss, {"clip_high": math.nan}, "loss.clip_high must not be negative"),
        (PartitionHead, {"num_layers": 0}, "loss.partition.num_layers must be at least 1; got 0"),
        (PartitionHead, {"dropout": 1.0}, r"loss.partition.dropout must be in \[0, 1\); got 1.0"),
        (PartitionHead, {"learning_rate": 0.0}, "loss.partition.learning_rate must be positive and finite; got 0.0"),
    ],
)
def test_settings_out_of_range_are_rejected(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**({"learning_rate": 1e-3} if make is PartitionHead else {}) | options)
