"""PPO's clipped objective, as GRPO, DAPO and Reinforce-Ada use it, with a dual clip where it is wanted."""

from __future__ import annotations

import math

from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.training.losses.functional.policy_gradient import clipped_objective, dual_clipped
from ada_lightning.training.losses.policy_gradient import TOKEN_TRUNCATION, PolicyGradientLoss, clip_errors
from ada_lightning.training.losses.terms import ImportanceCorrection, LossReduction, TokenTerms


class ClippedPolicyLoss(PolicyGradientLoss):
    """Policy-gradient loss of Reinforce-Ada and GRPO: ``min(ratio A, clip(ratio) A)`` per token.

    The ratio is current over old policy, so the first update with a rollout clips nothing and has the plain policy
    gradient. Where the advantage is negative a ratio above 1 is not clipped, and one token that became much more
    probable can outweigh a batch: ``dual_clip`` bounds it, at the price of no gradient beyond.

    Args:
        reduction: how token terms are summed.
        clip_low: lower clip of the ratio.
        clip_high: upper clip of the ratio.
        dual_clip: ratios of negative advantages count up to this; ``inf`` sets no bound.
        importance: how the engine's mismatch is corrected, see :mod:`ada_lightning.training.losses.importance`.
        importance_cap: largest weight of that correction; 0 switches it off.
        kl_coef: of the KL to the frozen initial policy; 0 loads no reference.
        entropy_coef: of the entropy bonus.

    Raises:
        ValueError: a negative coefficient, or a clip outside its range; all in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, eq. 3 and section 4.1 (clip 0.2/0.28, no KL). Dual clip: Ye et al. 2019,
        arXiv:1912.09729; 3 in verl, 10 in the scripts of DAPO, VIP and Reinforce-Ada.
    """

    def __init__(
        self,
        *,
        reduction: LossReduction,
        clip_low: float = 0.2,
        clip_high: float = 0.28,
        dual_clip: float = math.inf,
        importance: ImportanceCorrection = TOKEN_TRUNCATION,
        importance_cap: float = 2.0,
        kl_coef: float = 0.0,
        entropy_coef: float = 0.0,
    ) -> None:
        problems = clip_errors(clip_low=clip_low, clip_high=clip_high)
        if not dual_clip > 1:
            problems.append(f"loss.dual_clip must be above 1 (.inf sets no bound); got {dual_clip}")
        super().__init__(
            reduction=reduction,
            importance=importance,
            importance_cap=importance_cap,
            kl_coef=kl_coef,
            entropy_coef=entropy_coef,
            problems=problems,
        )
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.dual_clip = dual_clip

    def objective(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """``min(ratio A, clip(ratio) A)``, not below ``dual_clip A``. Shape ``(K,)``."""
        advantages_K = advantages_B[terms.response_K]
        objective_K, is_clipped_K = clipped_objective(
            terms.logprobs_K,
            terms.old_logprobs_K,
            advantages_K,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
        )
        sums = {"clip_ratio": is_clipped_K.sum()}
        if math.isfinite(self.dual_clip):
            objective_K, is_bound_K = dual_clipped(objective_K, advantages_K, cap=self.dual_clip)
            sums["dual_clip_ratio"] = is_bound_K.sum()
        return objective_K, sums

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        text = f"the others weigh tokens by ratios, clipped at 1 - {self.clip_low:g} and 1 + {self.clip_high:g}"
        return f"{text}, and at {self.dual_clip:g} for negative advantages" if math.isfinite(self.dual_clip) else text
