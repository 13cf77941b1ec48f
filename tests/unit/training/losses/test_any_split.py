"""Any split into microbatches gives the same gradient, whatever the loss, its correction and its masks."""

from __future__ import annotations

import random

import pytest
import torch

from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.training.losses import (
    ConstantReduction,
    PromptMeanReduction,
    ResponseMeanReduction,
    SequenceRejection,
    SequenceTruncation,
    TokenMeanReduction,
    TokenTerms,
)
from tests.builders import make_group, packed
from tests.unit.training.losses.two_responses import LOSSES, make_loss

GROUPS = [
    make_group([1.0, 0.0, 0.0], num_tokens=[5, 2, 7], key=1),
    make_group([0.0, 1.0, 1.0, 0.0, 0.0], num_tokens=[1, 3, 2, 2, 6], key=2),  # ragged: 5 responses
    make_group([0.0, 0.0], num_tokens=[4, 4], key=3),
]


def figures(name):
    """Current, old and engine log-probabilities and the mask of one token, the same in every split."""
    generator = random.Random(str(name))
    old = -generator.uniform(0.2, 4.0)
    near = [old + generator.gauss(0.0, width) for width in (0.3, 0.3)]
    return [min(near[0], -0.01), old, min(near[1], -0.01), float(generator.random() < 0.8)]


def gradients(loss, max_tokens, keep_all):
    """Derivative by each token's log-probability, by its response and position."""
    options = {"max_tokens_per_microbatch": max_tokens, "keep_groups_without_signal": keep_all}
    batch = packed(*GROUPS, advantage=GroupNormalizedAdvantage(), **options)
    found = {}
    for microbatch in batch:
        responses = zip(microbatch.identity_B.tolist(), microbatch.num_tokens_B.int().tolist(), strict=True)
        names = [(identity, position) for identity, length in responses for position in range(length)]
        rows = torch.tensor([figures(name) for name in names])
        logprobs_K = rows[:, 0].clone().requires_grad_()
        terms = TokenTerms(
            logprobs_K=logprobs_K,
            old_logprobs_K=rows[:, 1],
            sampling_logprobs_K=rows[:, 2],
            reference_logprobs_K=rows[:, 1],
            entropy_K=-logprobs_K,
            response_K=microbatch.response_K,
            mask_K=rows[:, 3],
        )
        value, _ = loss(terms, microbatch.advantage_B, microbatch, batch.counts)
        (gradient_K,) = torch.autograd.grad(value, logprobs_K)
        found |= dict(zip(names, gradient_K.tolist(), strict=True))
    return found, len(batch.microbatches)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("reduction", "importance"),
    [
        (ConstantReduction(token_scale=8), SequenceTruncation()),
        (PromptMeanReduction(token_scale=8), SequenceRejection()),
        (ResponseMeanReduction(), SequenceTruncation()),
        (TokenMeanReduction(), SequenceRejection()),
    ],
)
def test_any_split_gives_the_same_gradient(name, reduction, importance):
    options = {"reduction": reduction, "kl_coef": 0.1, "entropy_coef": 0.1}
    if not name.startswith("divergence"):
        options |= {"importance": importance, "importance_cap": 2.0}
    if name == "gspo":
        options |= {"clip_low": 0.1, "clip_high": 0.1}
    loss = make_loss(name, **options)
    whole, num_whole = gradients(loss, 10_000, keep_all=True)
    split, num_split = gradients(loss, 1, keep_all=True)
    assert (num_whole, num_split) == (1, 10)
    assert split == pytest.approx(whole, rel=1e-5, abs=1e-8)
    assert max(map(abs, whole.values())) > 1e-3


def test_groups_without_signal_add_nothing_but_their_counts():
    loss = make_loss("gspo", reduction=ResponseMeanReduction(), clip_low=0.1, clip_high=0.1)
    whole, _ = gradients(loss, 10_000, keep_all=True)
    skipped, _ = gradients(loss, 10_000, keep_all=False)
    assert {token: slope for token, slope in whole.items() if token in skipped} == pytest.approx(skipped)
    assert all(slope == 0.0 for token, slope in whole.items() if token not in skipped)
