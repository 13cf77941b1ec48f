"""One prompt, a right response of 2 tokens and a wrong one of 1 token, and one prompt without signal."""

from __future__ import annotations

import math

import torch

from ada_lightning.training.losses import (
    BinaryKl,
    BinaryTotalVariation,
    CispoLoss,
    ClippedPolicyLoss,
    ConstantReduction,
    DivergencePolicyLoss,
    GspoLoss,
    RaftLoss,
    ReinforceLoss,
    TokenTerms,
)
from tests.builders import make_group, packed

OLD = [-1.0, -2.0, -1.5]
NEW = [-0.5, -2.0, -2.0]
"""Ratios: e^0.5 = 1.6487 and 1 in the right response, e^-0.5 = 0.6065 in the wrong one."""
SAMPLING = [-1.0, -2.0 - math.log(4), -1.5 + math.log(2)]
"""Importance weights 1, 4 and 1/2; of the responses 4 and 1/2."""
ADVANTAGES = [0.5, -0.5]
SCALE = 20.0
"""Two prompts times 10 tokens."""
LOSSES = {
    "clipped": (ClippedPolicyLoss, {}),
    "dual_clip": (ClippedPolicyLoss, {"dual_clip": 3.0}),
    "gspo": (GspoLoss, {}),
    "cispo": (CispoLoss, {}),
    "reinforce": (ReinforceLoss, {}),
    "raft": (RaftLoss, {}),
    "divergence_tv": (
        DivergencePolicyLoss,
        {"divergence": BinaryTotalVariation(), "delta_low": 0.15, "delta_high": 0.15},
    ),
    "divergence_kl": (DivergencePolicyLoss, {"divergence": BinaryKl(), "delta_low": 0.05, "delta_high": 0.05}),
}


def make_loss(name, **options):
    """The loss of that name without importance correction, unless it is asked for."""
    cls, own = LOSSES[name]
    neutral = {"reduction": ConstantReduction(token_scale=10)}
    if cls is not DivergencePolicyLoss:
        neutral["importance_cap"] = 0.0
    return cls(**(neutral | own | options))


def make_batch():
    return packed(make_group([1.0, 0.0], num_tokens=[2, 1]), make_group([0.0, 0.0], num_tokens=[1, 4], key=8))


def make_terms(new=NEW, **changes) -> TokenTerms:
    fields = {
        "logprobs_K": torch.tensor(new, requires_grad=True),
        "old_logprobs_K": torch.tensor(OLD),
        "sampling_logprobs_K": torch.tensor(SAMPLING),
        "reference_logprobs_K": torch.tensor([-0.5, -1.0, -2.0]),
        "entropy_K": torch.tensor([0.3, 0.2, 0.1]),
        "response_K": torch.tensor([0, 0, 1]),
        "mask_K": torch.ones(3),
    }
    return TokenTerms(**{**fields, **changes})


def run(loss, terms, advantages=None, batch=None):
    """Loss, gradient by token times ``-SCALE``, and sums for logging."""
    batch = batch or make_batch()
    value, sums = loss(terms, torch.tensor(advantages or ADVANTAGES), batch.microbatches[0], batch.counts)
    assert all(total.dtype == torch.float32 and not total.requires_grad for total in sums.values())
    (gradient_K,) = torch.autograd.grad(value, terms.logprobs_K, allow_unused=True)
    return float(value.detach()), (-SCALE * gradient_K).tolist(), {name: float(total) for name, total in sums.items()}
