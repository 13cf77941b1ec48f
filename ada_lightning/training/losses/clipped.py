"""PPO's clipped objective, as GRPO, DAPO and Reinforce-Ada use it, with a dual clip where it is wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.functional import clipped, ratio
from ada_lightning.training.losses.policy_gradient import RatioClippingLoss
from ada_lightning.training.losses.terms import TensorAndSums, TokenTerms


@dataclass(kw_only=True, eq=False)
class ClippedPolicyLoss(RatioClippingLoss):
    """Policy-gradient loss of Reinforce-Ada and GRPO: ``min(ratio A, clip(ratio) A)`` per token.

    The ratio is current over old policy, so the first update with a rollout clips nothing and has the plain policy
    gradient. Where the advantage is negative a ratio above 1 is not clipped, and one token that became much more
    probable can outweigh a batch: ``dual_clip`` bounds it, at the price of no gradient beyond.

    Args:
        dual_clip: ratios of negative advantages count up to this; ``inf`` sets no bound.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, eq. 3 and section 4.1 (clip 0.2/0.28, no KL). Dual clip: Ye et al. 2019,
        arXiv:1912.09729; 3 in verl, 10 in the scripts of DAPO, VIP and Reinforce-Ada.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float = math.inf

    def errors(self) -> list[str]:
        """The clips, then what every loss has."""
        own = [f"loss.dual_clip must be above 1 (.inf sets no bound); got {self.dual_clip}"]
        return [*([] if self.dual_clip > 1 else own), *super().errors()]

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
        """``min(ratio A, clip(ratio) A)``, not below ``dual_clip A``. Shape ``(K,)``."""
        advantages_K = advantages_B[terms.response_K]
        ratio_K = ratio(terms.logprobs_K - terms.old_logprobs_K)
        objective_K, is_clipped_K = clipped(ratio_K, advantages_K, clip_low=self.clip_low, clip_high=self.clip_high)
        sums = {"clip_ratio": is_clipped_K.sum()}
        if math.isfinite(self.dual_clip):  # the minimum leaves negative advantages without a bound
            bound_K = self.dual_clip * advantages_K
            is_bound_K = (advantages_K < 0) & (objective_K < bound_K)
            objective_K = torch.where(is_bound_K, bound_K, objective_K)
            sums["dual_clip_ratio"] = is_bound_K.sum()
        return objective_K, sums

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        text = f"the others weigh tokens by ratios, clipped at 1 - {self.clip_low:g} and 1 + {self.clip_high:g}"
        return f"{text}, and at {self.dual_clip:g} for negative advantages" if math.isfinite(self.dual_clip) else text
