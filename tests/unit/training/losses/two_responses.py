"""One prompt, a right response of 2 tokens and a wrong one of 1 token, and one prompt without signal."""

from __future__ import annotations

import math

import torch

from ada_lightning.training.batch import TrainingBatch
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
from ada_lightning.training.packing import pack_groups
from tests.builders import make_group

OLD = [-1.0, -2.0, -1.5]
NEW = [-0.5, -2.0, -2.0]
"""Ratios: e^0.5 = 1.6487 and 1 in the right response, e^-0.5 = 0.6065 in the wrong one."""
SAMPLING = [-1.0, -2.0 - math.log(4), -1.5 + math.log(2)]
"""Importance weights 1, 4 and 1/2; of the responses 4 and 1/2."""
ADVANTAGES = [0.5, -0.5]
SCALE = 20.0
"""Two prompts times 10 tokens."""
TV = {"divergence": BinaryTotalVariation(), "delta_low": 0.15, "delta_high": 0.15}
KL = {"divergence": BinaryKl(), "delta_low": 0.05, "delta_high": 0.05}
LOSSES = {
    "clipped": (ClippedPolicyLoss, {}),
    "dual_clip": (ClippedPolicyLoss, {"dual_clip": 3.0}),
    "gspo": (GspoLoss, {}),
    "cispo": (CispoLoss, {}),
    "reinforce": (ReinforceLoss, {}),
    "raft": (RaftLoss, {}),
    "divergence_tv": (DivergencePolicyLoss, TV),
    "divergence_kl": (DivergencePolicyLoss, KL),
}


def make_loss(name, **options):
    """The loss of that name without importance correction, unless it is asked for."""
    cls, own = LOSSES[name]
    neutral = {"reduction": ConstantReduction(token_scale=10)}
    if cls is not DivergencePolicyLoss:
        neutral["importance_cap"] = 0.0
    return cls(**(neutral | own | options))


def make_batch() -> TrainingBatch:
    (batch,) = pack_groups(
        [make_group([1.0, 0.0], num_tokens=[2, 1]), make_group([0.0, 0.0], num_tokens=[1, 4], key=8)],
        num_minibatches=1,
        max_tokens_per_microbatch=1000,
        policy_version=0,
        shuffle_seed=0,
        keep_groups_without_signal=False,
        share_prompts=True,
    )
    return batch


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


def run(loss, terms, advantages=None):
    """Loss, gradient by token times ``-SCALE``, and sums for logging."""
    batch = make_batch()
    value, sums = loss(terms, torch.tensor(advantages or ADVANTAGES), batch.microbatches[0], batch.counts)
    (gradient_K,) = torch.autograd.grad(value, terms.logprobs_K, allow_unused=True)
    return float(value.detach()), (-SCALE * gradient_K).tolist(), {name: float(total) for name, total in sums.items()}
