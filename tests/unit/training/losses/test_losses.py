"""Every loss against its definition in plain Python on two responses, and what all losses share."""

from __future__ import annotations

import math

import pytest
import torch

from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.selection import BalancedSelection
from ada_lightning.training.losses import (
    ConstantReduction,
    PromptMeanReduction,
    ResponseMeanReduction,
    TokenMeanReduction,
)
from tests.builders import make_pool, packed
from tests.unit.training.losses.two_responses import (
    ADVANTAGES,
    LOSSES,
    NEW,
    OLD,
    SAMPLING,
    SCALE,
    make_batch,
    make_loss,
    make_terms,
    run,
)

RESPONSE = [0, 0, 1]
CLOSE = {"rel": 1e-5, "abs": 1e-7}  # float32
NEAR = [-0.9999, -2.0001, -1.5002]  # nothing is clipped, nor by GSPO


def plain_objectives(name, new, advantages):
    """What each token adds, its derivative by the token's log-probability and whether a bound holds, by the papers."""
    rows = []
    for token, response in enumerate(RESPONSE):
        advantage, ratio = advantages[response], math.exp(new[token] - OLD[token])
        if name == "gspo":
            own = [t for t in range(3) if RESPONSE[t] == response]
            ratio = math.exp(sum(new[t] - OLD[t] for t in own) / len(own))
            rows.append(pessimistic(ratio, advantage, 3e-4, 4e-4))
        elif name == "clipped":
            rows.append(pessimistic(ratio, advantage, 0.2, 0.28))
        elif name == "dual_clip":
            is_bound = advantage < 0 and ratio > 3
            rows.append((3 * advantage, 0.0, False) if is_bound else pessimistic(ratio, advantage, 0.2, 0.28))
        elif name == "raft":
            rows.append(pessimistic(ratio, advantage, 1.0, 0.2) if response == 0 else (0.0, 0.0, False))
        else:
            weight, is_bound = {"cispo": (min(ratio, 5.0), ratio > 5), "reinforce": (1.0, False)}.get(
                name
            ) or divergence_weight(name, new[token], SAMPLING[token], advantage)
            rows.append((weight * advantage * new[token], weight * advantage, is_bound))
    return rows


def pessimistic(ratio, advantage, low, high):
    clipped = min(max(ratio, 1 - low), 1 + high)
    if clipped * advantage < ratio * advantage:
        return clipped * advantage, 0.0, True
    return ratio * advantage, ratio * advantage, False


def divergence_weight(name, logprob, sampling_logprob, advantage):
    p, mu = math.exp(logprob), math.exp(sampling_logprob)
    if name == "divergence_tv":
        divergence, delta = abs(p - mu), 0.15
    else:
        divergence, delta = mu * math.log(mu / p) + (1 - mu) * math.log((1 - mu) / (1 - p)), 0.05
    is_masked = (p > mu if advantage > 0 else p < mu) and divergence > delta
    return 0.0 if is_masked else min(p / mu, 3.0), is_masked


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("new", "advantages"),
    [
        (NEW, ADVANTAGES),
        (NEW, [-0.5, 0.5]),
        (NEAR, ADVANTAGES),
        ([-0.1, -0.3, -4.0], ADVANTAGES),
        ([-0.1, -0.3, -0.02], [2.0, -2.0]),  # e^1.48 = 4.4, beyond the dual clip
        ([-0.1, -0.3, -0.02], [-2.0, 2.0]),
        ([-4.0, -3.0, -4.0], [2.0, -2.0]),
    ],
)
def test_loss_and_gradient_follow_the_definition(name, new, advantages):
    loss, gradient, sums = run(make_loss(name), make_terms(new), advantages)
    expected = plain_objectives(name, new, advantages)
    assert loss == pytest.approx(-sum(value for value, _, _ in expected) / SCALE, **CLOSE)
    assert gradient == pytest.approx([slope for _, slope, _ in expected], **CLOSE)
    assert sums.get("clip_ratio", 0.0) == sum(is_bound for _, _, is_bound in expected)
    if name == "dual_clip":
        assert sums["dual_clip_ratio"] == sum(a < 0 and n - o > math.log(3) for a, n, o in zip(
            [advantages[response] for response in RESPONSE], new, OLD, strict=True))  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_at_ratios_of_1_the_gradient_is_the_plain_policy_gradient(name):
    """Engine, old and current policy agree: A on every token, and nothing of it clipped."""
    _, gradient, sums = run(make_loss(name), make_terms(OLD, sampling_logprobs_K=torch.tensor(OLD)))
    assert gradient == pytest.approx([0.5, 0.5, 0.0 if name == "raft" else -0.5], **CLOSE)
    assert sums.get("clip_ratio", 0.0) == 0


def test_divergence_weighs_by_the_engines_probability_up_to_the_cap():
    """p / mu of the second token: 4. The third fell from 0.45 to 0.22 and is to fall further. No old policy matters."""
    terms = make_terms([-1.0, -2.0, -1.5])
    assert run(make_loss("divergence_tv", ratio_cap=20.0), terms)[1] == pytest.approx([0.5, 2.0, 0.0])
    assert run(make_loss("divergence_tv"), terms)[1] == pytest.approx([0.5, 1.5, 0.0])  # 3, as in effect in verl
    moved = make_terms([-1.0, -2.0, -1.5], old_logprobs_K=torch.tensor([-7.0, -0.1, -3.0]))
    assert run(make_loss("divergence_tv"), moved)[1] == run(make_loss("divergence_tv"), terms)[1]


def test_the_two_sides_of_the_divergence_have_their_own_bound():
    """Moved by 0.3: just within 0.31, and beyond 0.29."""
    terms = make_terms([math.log(0.8)] * 2 + [math.log(0.2)], sampling_logprobs_K=torch.full((3,), math.log(0.5)))
    rising, falling = ({"delta_low": 0.29, "delta_high": 0.31}, {"delta_low": 0.31, "delta_high": 0.29})
    assert run(make_loss("divergence_tv", **rising), terms)[1] == pytest.approx([0.8, 0.8, 0.0])
    assert run(make_loss("divergence_tv", **falling), terms)[1] == pytest.approx([0.0, 0.0, -0.2])


def test_a_nearly_certain_token_has_a_finite_divergence():
    terms = make_terms([-1e-9, -1e-9, -1e-9], sampling_logprobs_K=torch.tensor([0.0, -1e-9, -30.0]))
    loss, gradient, sums = run(make_loss("divergence_kl"), terms)
    assert all(map(math.isfinite, [loss, *gradient, *sums.values()]))


def test_gspo_is_the_sequence_form_of_the_paper():
    """Eq. 5 by autograd through the sequence ratio itself: mean over responses of min(s A, clip(s) A)."""
    batch = make_batch()
    new, advantages_B = [-0.9996, -2.0001, -1.5002], torch.tensor([0.7, -0.5])
    ours = make_terms(new)
    loss = make_loss("gspo", reduction=ResponseMeanReduction())
    value, _ = loss(ours, advantages_B, batch.microbatches[0], batch.counts)
    value.backward()
    logprobs_K = torch.tensor(new, requires_grad=True)
    difference_K = logprobs_K - torch.tensor(OLD)
    s_B = torch.stack([difference_K[:2].mean(), difference_K[2]]).exp()
    clipped_B = s_B.clamp(1 - 3e-4, 1 + 4e-4)
    paper = -torch.minimum(s_B * advantages_B, clipped_B * advantages_B).sum() / batch.counts.num_responses
    paper.backward()
    torch.testing.assert_close(value, paper, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(ours.logprobs_K.grad, logprobs_K.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_masked_tokens_do_not_train(name):
    sampling_K, mask_K = torch.tensor(OLD), torch.tensor([0.0, 1.0, 0.5])
    whole = run(make_loss(name), make_terms(NEAR, sampling_logprobs_K=sampling_K))[1]
    masked = run(make_loss(name), make_terms(NEAR, sampling_logprobs_K=sampling_K, mask_K=mask_K))[1]
    expected = [0.0, whole[1], 0.5 * whole[2]]
    assert masked == pytest.approx(expected, rel=2e-4, abs=1e-7)  # GSPO's mean is over the other token then


def test_gspo_takes_its_mean_over_the_tokens_that_train():
    terms = make_terms(mask_K=torch.tensor([1.0, 0.0, 1.0]))
    assert run(make_loss("gspo", clip_high=10.0), terms)[1][:2] == pytest.approx([0.5 * math.exp(0.5), 0.0])


@pytest.mark.parametrize("name", LOSSES)
def test_kl_and_entropy_are_added_alike(name):
    """k3 is e - 2 on one token; entropies sum to 0.6; masks leave both alone."""
    terms = make_terms(mask_K=torch.tensor([1.0, 0.0, 1.0]))
    plain = run(make_loss(name), terms)[0]
    with_both = make_loss(name, kl_coef=0.1, entropy_coef=0.5)
    loss, _, sums = run(with_both, terms)
    assert loss - plain == pytest.approx((0.1 * (math.e - 2) - 0.5 * 0.6) / SCALE, rel=1e-4)
    assert (sums["kl"], sums["entropy"]) == pytest.approx((math.e - 2, 0.6), rel=1e-5)
    assert (sums["logprob_gap"], sums["logprob_gap_max"]) == pytest.approx((3 * math.log(2), 2 * math.log(2)))
    needs = ("needs_reference", "needs_entropy_gradient", "needs_groups_without_signal")
    for coefficients, expected in (({}, "000"), ({"kl_coef": 0.1}, "101"), ({"entropy_coef": 0.1}, "011")):
        assert "".join(str(int(getattr(make_loss(name, **coefficients), need))) for need in needs) == expected
    assert with_both.caveats()[-2:] == [
        f"loss.{key} adds a term that is not part of f" for key in ("kl_coef = 0.1", "entropy_coef = 0.5")
    ]


def test_kl_and_entropy_count_as_in_the_pool_that_was_selected_from():
    """A right response of 2 tokens, kept, and three wrong ones, of which one, of 1 token, is: N/m of 1 and 3.

    The weights (N_s / m_s)(n / N) are 1/2 and 3/2. k3 by token: 0, e - 2 (right), 0 (wrong); entropies 0.3 and 0.2 of
    the right response, 0.1 of the wrong one: 0.5 * 0.5 + 1.5 * 0.1 = 0.4.
    """
    pool = make_pool([1.0, 0.0, 0.0, 0.0], num_tokens=[2, 1, 5, 5])
    group = ResponseGroup(pool, BalancedSelection(group_size=2).select(pool)).with_advantages(ADVANTAGES)
    loss, _, sums = run(make_loss("clipped", kl_coef=0.1, entropy_coef=0.5), make_terms(), batch=packed(group))
    plain = run(make_loss("clipped"), make_terms(), batch=packed(group))[0]
    assert sums["kl"] == pytest.approx(0.5 * (math.e - 2), rel=1e-6)
    assert (sums["entropy"], sums["pool_weight"]) == pytest.approx((0.4, 0.5 * 2 + 1.5 * 1))
    assert loss - plain == pytest.approx((0.1 * sums["kl"] - 0.5 * 0.4) / 10, rel=1e-5)
    assert sums["clip_ratio"] == 2  # of the tokens that train, unweighed


@pytest.mark.parametrize(
    ("reduction", "weights"),
    [
        (ConstantReduction(token_scale=10), [1 / 20, 1 / 20]),
        (PromptMeanReduction(token_scale=10), [1 / 40, 1 / 40]),
        (ResponseMeanReduction(), [1 / (4 * 2), 1 / (4 * 1)]),
        (TokenMeanReduction(), [1 / 8, 1 / 8]),
    ],
)
def test_reductions_follow_their_definitions(reduction, weights):
    """2 prompts, 4 responses, 8 response tokens were kept; the prompt without signal counts in all of them."""
    batch = make_batch()
    torch.testing.assert_close(reduction.token_weights(batch.microbatches[0], batch.counts), torch.tensor(weights))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("clipped", {"dual_clip": 1.0}, r"loss.dual_clip must be above 1 \(inf sets no bound\); got 1.0"),
        ("clipped", {"dual_clip": math.nan}, "loss.dual_clip must be above 1"),
        ("gspo", {"clip_low": -0.1, "kl_coef": -1.0}, r"clip_low must be in \[0, 1\]; got -0.1; loss.kl_coef must not"),
        ("cispo", {"clip_low": 10.0}, r"loss.clip_low must be in \[0, 1\]; got 10.0"),
        ("raft", {"clip_high": -1.0}, "loss.clip_high must not be negative; got -1.0"),
        ("reinforce", {"importance_cap": -1.0}, "loss.importance_cap must not be negative; got -1.0"),
        ("divergence_tv", {"delta_low": -0.1, "ratio_cap": 0.0}, "delta_low must not .*; loss.ratio_cap must be pos"),
        (
            "divergence_kl",
            {"delta_high": -0.1, "entropy_coef": -0.1},
            "loss.delta_high must .*; loss.entropy_coef must",
        ),
    ],
)
def test_settings_out_of_range_are_rejected(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_loss(name, **options)


def test_a_constant_of_zero_is_rejected():
    with pytest.raises(ValueError, match="token_scale must be positive; got 0"):
        ConstantReduction(token_scale=0)
