"""CISPO (MiniMax-M1, arXiv:2506.13585, eq. 4-5): the importance weight is clipped, the gradient never dropped.

Claim: PPO's clip silences rare tokens ("wait", "however") after the first update, for they move most; here they go on
training, with a bounded weight. Assumes that weights near the cap are better than none: nothing keeps the policy near
the old one but the cap. Degenerate case: ratios of 1, where it is REINFORCE.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.functional import ratio
from ada_lightning.training.losses.policy_gradient import RatioClippingLoss
from ada_lightning.training.losses.terms import TensorAndSums, TokenTerms


@dataclass(kw_only=True, eq=False)
class CispoLoss(RatioClippingLoss):
    """``sg(clip(ratio)) A log pi`` per token.

    The ratio is current over old policy: the first update with a rollout has weights of 1. Without a lower bound
    (``clip_low=1``), as in the paper, which names no upper one: 5, which is ``clip_high=4``, is what TRL advises after
    ScaleRL, arXiv:2510.13786.
    """

    clip_low: float = 1.0
    clip_high: float = 4.0

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
        """``sg(clip(ratio)) A log pi``. Shape ``(K,)``."""
        ratio_K = ratio(terms.logprobs_K.detach() - terms.old_logprobs_K)
        weight_K = ratio_K.clamp(1 - self.clip_low, 1 + self.clip_high)
        objective_K = weight_K * advantages_B[terms.response_K] * terms.logprobs_K
        return objective_K, {"clip_ratio": (weight_K != ratio_K).sum()}

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        return (
            "the others weigh the gradient of every token by its ratio, bounded by "
            f"{1 - self.clip_low:g} and {1 + self.clip_high:g}"
        )
