"""Every loss by hand on two responses, against its definition in plain Python, and where its gradient ends."""

from __future__ import annotations

import math

import pytest
import torch

from ada_lightning.training.losses import ResponseMeanReduction, TokenMeanReduction
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


def plain_objectives(name, new, advantages):
    """What each token adds, and its derivative by the token's log-probability, from the papers' formulas."""
    rows = []
    for token, response in enumerate(RESPONSE):
        advantage, log_ratio = advantages[response], new[token] - OLD[token]
        if name == "gspo":
            own = [t for t in range(3) if RESPONSE[t] == response]
            log_ratio = sum(new[t] - OLD[t] for t in own) / len(own)
            rows.append(pessimistic(math.exp(log_ratio), advantage, 3e-4, 4e-4))
        elif name in ("clipped", "dual_clip"):
            value, slope = pessimistic(math.exp(log_ratio), advantage, 0.2, 0.28)
            is_bound = name == "dual_clip" and advantage < 0 and value < 3 * advantage
            rows.append((3 * advantage, 0.0) if is_bound else (value, slope))
        elif name == "raft":
            rows.append(pessimistic(math.exp(log_ratio), advantage, 1.0, 0.2) if response == 0 else (0.0, 0.0))
        elif name == "cispo":
            weight = min(math.exp(log_ratio), 5.0)
            rows.append((weight * advantage * new[token], weight * advantage))
        elif name == "reinforce":
            rows.append((advantage * new[token], advantage))
        else:
            weight = divergence_weight(name, new[token], SAMPLING[token], advantage)
            rows.append((weight * advantage * new[token], weight * advantage))
    return rows


def pessimistic(ratio, advantage, low, high):
    clipped = min(max(ratio, 1 - low), 1 + high)
    if clipped * advantage < ratio * advantage:
        return clipped * advantage, 0.0
    return ratio * advantage, ratio * advantage


def divergence_weight(name, logprob, sampling_logprob, advantage):
    p, mu = math.exp(logprob), math.exp(sampling_logprob)
    if name == "divergence_tv":
        divergence, delta = abs(p - mu), 0.15
    else:
        divergence, delta = mu * math.log(mu / p) + (1 - mu) * math.log((1 - mu) / (1 - p)), 0.05
    goes_on = p > mu if advantage > 0 else p < mu
    return 0.0 if goes_on and divergence > delta else min(p / mu, 3.0)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("new", "advantages"),
    [
        (NEW, ADVANTAGES),
        (NEW, [-0.5, 0.5]),
        ([-0.9999, -2.0001, -1.5003], ADVANTAGES),  # inside GSPO's clips
        ([-0.1, -0.3, -4.0], ADVANTAGES),
        ([-0.1, -0.3, -0.02], [2.0, -2.0]),  # e^1.48 = 4.4, beyond the dual clip
        ([-4.0, -3.0, -4.0], [2.0, -2.0]),
    ],
)
def test_loss_and_gradient_follow_the_definition(name, new, advantages):
    loss, gradient, _ = run(make_loss(name), make_terms(new), advantages)
    expected = plain_objectives(name, new, advantages)
    assert loss == pytest.approx(-sum(value for value, _ in expected) / SCALE, **CLOSE)
    assert gradient == pytest.approx([slope for _, slope in expected], **CLOSE)


def test_gspo_by_hand():
    """s = e^((0.5 + 0) / 2) = 1.284 and e^-0.5: beyond 1.0004, and below 0.9997 where A < 0, so both are clipped."""
    loss, gradient, sums = run(make_loss("gspo"), make_terms())
    assert loss == pytest.approx(-(2 * 1.0004 * 0.5 - 0.9997 * 0.5) / SCALE, rel=1e-6)
    assert gradient == [0.0, 0.0, 0.0]
    assert sums["clip_ratio"] == 3


def test_cispo_by_hand():
    """Weights e^0.5, 1, e^-0.5."""
    loss, gradient, sums = run(make_loss("cispo", clip_high=0.28), make_terms())
    assert loss == pytest.approx(-(1.28 * 0.5 * -0.5 + 0.5 * -2.0 + math.exp(-0.5) * -0.5 * -2.0) / SCALE, rel=1e-6)
    assert gradient == pytest.approx([1.28 * 0.5, 0.5, -0.5 * math.exp(-0.5)])
    assert sums["clip_ratio"] == 1


def test_reinforce_by_hand():
    loss, gradient, _ = run(make_loss("reinforce"), make_terms())
    assert loss == pytest.approx(-(0.5 * -0.5 + 0.5 * -2.0 + -0.5 * -2.0) / SCALE, rel=1e-6)
    assert gradient == pytest.approx([0.5, 0.5, -0.5])


def test_raft_by_hand():
    """1.2 and 1, weighed by 1; the wrong response adds nothing whatever its advantage."""
    loss, gradient, _ = run(make_loss("raft"), make_terms(), [1.0, -7.0])
    assert loss == pytest.approx(-(1.2 + 1.0) / SCALE, rel=1e-6)
    assert gradient == pytest.approx([0.0, 1.0, 0.0])


def test_dual_clip_by_hand():
    """A ratio of e^2 = 7.4 with A = -1/2: -3.7 without the bound, 3 * -1/2 with it, and no gradient."""
    terms = make_terms([-1.0, -2.0, 0.5])
    assert run(make_loss("clipped"), terms)[1][2] == pytest.approx(-0.5 * math.exp(2))
    loss, gradient, sums = run(make_loss("dual_clip"), terms)
    assert loss == pytest.approx(-(0.5 + 0.5 - 1.5) / SCALE, rel=1e-6)
    assert gradient == pytest.approx([0.5, 0.5, 0.0])
    assert sums["dual_clip_ratio"] == 1


def test_dual_clip_leaves_positive_advantages_alone():
    terms = make_terms([-1.0, -2.0, 0.5])
    with_bound, without = (run(make_loss(name), terms, [0.5, 0.5])[:2] for name in ("dual_clip", "clipped"))
    assert with_bound == without


def test_divergence_weighs_by_the_engines_probability_up_to_the_cap():
    """p / mu of the second token: 4. The third fell from 0.45 to 0.22 and is to fall further. No old policy matters."""
    terms = make_terms([-1.0, -2.0, -1.5])
    assert run(make_loss("divergence_tv", ratio_cap=20.0), terms)[1] == pytest.approx([0.5, 2.0, 0.0])
    assert run(make_loss("divergence_tv"), terms)[1] == pytest.approx([0.5, 1.5, 0.0])  # 3, as in effect in verl
    moved = make_terms([-1.0, -2.0, -1.5], old_logprobs_K=torch.tensor([-7.0, -0.1, -3.0]))
    assert run(make_loss("divergence_tv"), moved)[1] == run(make_loss("divergence_tv"), terms)[1]


@pytest.mark.parametrize("name", ["divergence_tv", "divergence_kl"])
def test_divergence_masks_begin_at_their_boundary(name):
    """mu = 1/2; p where the divergence is delta: one step inside trains, one step outside does not."""
    delta = {"divergence_tv": 0.15, "divergence_kl": 0.05}[name]
    rise, fall = (boundary(name, delta, side) for side in (+1, -1))
    for sign, edge in ((+1, rise), (-1, fall)):
        for step, trains in ((-1e-4, True), (+1e-4, False)):
            new = [math.log(edge + sign * step)] * 3
            terms = make_terms(new, sampling_logprobs_K=torch.full((3,), math.log(0.5)))
            gradient = run(make_loss(name), terms, [float(sign), float(sign)])[1]
            assert (gradient[0] != 0.0) is trains
            back = run(make_loss(name), terms, [-float(sign), -float(sign)])[1]
            assert back[0] != 0.0  # the way back is always open


def boundary(name, delta, side):
    """The p on that side of mu = 1/2 whose divergence is delta, by bisection."""
    low, high = (0.5, 0.999999) if side > 0 else (0.000001, 0.5)
    for _ in range(60):
        p = (low + high) / 2
        tv, kl = abs(p - 0.5), 0.5 * math.log(0.5 / p) + 0.5 * math.log(0.5 / (1 - p))
        is_inside = (tv if name == "divergence_tv" else kl) < delta
        low, high = (p, high) if is_inside is (side > 0) else (low, p)
    return (low + high) / 2


def test_the_two_sides_of_the_divergence_have_their_own_bound():
    terms = make_terms([math.log(0.8)] * 2 + [math.log(0.2)], sampling_logprobs_K=torch.full((3,), math.log(0.5)))
    assert run(make_loss("divergence_tv", delta_high=0.31), terms)[1] == pytest.approx([0.8, 0.8, 0.0])
    assert run(make_loss("divergence_tv", delta_low=0.31), terms)[1] == pytest.approx([0.0, 0.0, -0.2])


def test_a_nearly_certain_token_has_a_finite_divergence():
    terms = make_terms([-1e-9, -1e-9, -1e-9], sampling_logprobs_K=torch.tensor([0.0, -1e-9, -30.0]))
    loss, gradient, sums = run(make_loss("divergence_kl"), terms)
    assert all(map(math.isfinite, [loss, *gradient, *sums.values()]))


@pytest.mark.parametrize("name", LOSSES)
def test_at_ratios_of_1_the_gradient_is_the_plain_policy_gradient(name):
    """Engine, old and current policy agree: A on every token, and nothing of it clipped."""
    terms = make_terms(OLD, sampling_logprobs_K=torch.tensor(OLD))
    _, gradient, sums = run(make_loss(name), terms)
    assert gradient == pytest.approx([0.5, 0.5, 0.0 if name == "raft" else -0.5], **CLOSE)
    assert sums.get("clip_ratio", 0.0) == 0


def test_cispo_keeps_the_gradient_that_ppo_drops():
    """The right response's first token became 1.65 times as probable, the wrong one's 0.61 times."""
    dropped = run(make_loss("clipped"), make_terms())[1]
    kept = run(make_loss("cispo"), make_terms())[1]
    assert (dropped[0], dropped[2]) == (0.0, 0.0)
    assert min(abs(kept[0]), abs(kept[2])) > 0.3


def test_gspo_weighs_all_tokens_of_a_response_alike():
    gradient = run(make_loss("gspo", clip_high=10.0), make_terms())[1]
    assert gradient[0] == gradient[1] == pytest.approx(0.5 * math.exp(0.25), rel=1e-6)


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
    near = [-0.9999, -2.0001, -1.5002]  # nothing is clipped
    whole = run(make_loss(name), make_terms(near, sampling_logprobs_K=torch.tensor(OLD)))[1]
    mask_K = torch.tensor([0.0, 1.0, 0.5])
    masked = run(make_loss(name), make_terms(near, sampling_logprobs_K=torch.tensor(OLD), mask_K=mask_K))[1]
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
    loss, _, sums = run(make_loss(name, kl_coef=0.1, entropy_coef=0.5), terms)
    assert loss - plain == pytest.approx((0.1 * (math.e - 2) - 0.5 * 0.6) / SCALE, rel=1e-4)
    assert sums["kl"] == pytest.approx(math.e - 2, rel=1e-5)
    loss_object = make_loss(name, kl_coef=0.1)
    assert loss_object.needs_reference
    assert loss_object.needs_groups_without_signal
    assert not make_loss(name).needs_groups_without_signal
    assert make_loss(name, entropy_coef=0.1).needs_entropy_gradient


@pytest.mark.parametrize("name", LOSSES)
def test_every_figure_is_logged_without_gradient(name):
    batch = make_batch()
    _, sums = make_loss(name)(make_terms(), torch.tensor(ADVANTAGES), batch.microbatches[0], batch.counts)
    assert {"logprob_gap", "logprob_gap_max", "entropy", "pool_weight"} <= set(sums)
    assert all(value.dtype == torch.float32 and not value.requires_grad for value in sums.values())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("clipped", {"dual_clip": 1.0}, r"loss.dual_clip must be above 1 \(.inf sets no bound\); got 1.0"),
        ("clipped", {"dual_clip": math.nan}, "loss.dual_clip must be above 1"),
        ("gspo", {"clip_low": -0.1, "kl_coef": -1.0}, r"clip_low must be in \[0, 1\]; got -0.1; loss.kl_coef must not"),
        ("cispo", {"clip_low": 10.0}, r"loss.clip_low must be in \[0, 1\]; got 10.0"),
        ("cispo", {"clip_high": -1.0}, "loss.clip_high must not be negative; got -1.0"),
        ("reinforce", {"importance_cap": -1.0}, "loss.importance_cap must not be negative; got -1.0"),
        ("raft", {"clip_high": -1.0}, "loss.clip_high must not be negative"),
        ("divergence_tv", {"delta_low": -0.1, "ratio_cap": 0.0}, "delta_low must not .*; loss.ratio_cap must be pos"),
        ("divergence_kl", {"delta_high": -0.1}, "loss.delta_high must not be negative; got -0.1"),
        ("divergence_kl", {"entropy_coef": -0.1}, "loss.entropy_coef must not be negative; got -0.1"),
    ],
)
def test_settings_out_of_range_are_rejected(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_loss(name, **options)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_says_what_it_bends(name):
    loss = make_loss(name, reduction=TokenMeanReduction(), kl_coef=0.5)
    assert loss.bends()[-1] == "loss.kl_coef = 0.5 adds a term that is no part of f"
    assert all(line and "\n" not in line for line in [*loss.bends(), loss.reuse_bend()])
