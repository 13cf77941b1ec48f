"""CISPO (MiniMax-M1, arXiv:2506.13585, eq. 4-5): the importance weight is clipped, the gradient never dropped.

Claim: PPO's clip silences rare tokens ("wait", "however") after the first update, for they move most; here they go on
training, with a bounded weight. Assumes that weights near the cap are better than none: nothing keeps the policy near
the old one but the cap. Degenerate case: ratios of 1, where it is REINFORCE.
"""

from __future__ import annotations

from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.training.losses.functional.policy_gradient import ratio
from ada_lightning.training.losses.policy_gradient import TOKEN_TRUNCATION, PolicyGradientLoss, clip_errors
from ada_lightning.training.losses.terms import ImportanceCorrection, LossReduction, TokenTerms


class CispoLoss(PolicyGradientLoss):
    """``sg(clip(ratio)) A log pi`` per token.

    The ratio is current over old policy: the first update with a rollout has weights of 1. Without a lower bound
    (``clip_low=1``), as in the paper.

    Args:
        reduction: how token terms are summed.
        clip_low: weights are at least ``1 - clip_low``; 1 sets no bound.
        clip_high: weights are at most ``1 + clip_high``.
        importance: how the engine's mismatch is corrected, see :mod:`ada_lightning.training.losses.importance`.
        importance_cap: largest weight of that correction; 0 switches it off.
        kl_coef: of the KL to the frozen initial policy; 0 loads no reference.
        entropy_coef: of the entropy bonus.

    Raises:
        ValueError: a negative coefficient, or a clip outside its range; all in one message.

    Source:
        MiniMax-M1, arXiv:2506.13585, eq. 4-5; it names no upper bound. 5, which is ``clip_high=4``, is what TRL advises
        after ScaleRL, arXiv:2510.13786.
    """

    def __init__(
        self,
        *,
        reduction: LossReduction,
        clip_low: float = 1.0,
        clip_high: float = 4.0,
        importance: ImportanceCorrection = TOKEN_TRUNCATION,
        importance_cap: float = 2.0,
        kl_coef: float = 0.0,
        entropy_coef: float = 0.0,
    ) -> None:
        super().__init__(
            reduction=reduction,
            importance=importance,
            importance_cap=importance_cap,
            kl_coef=kl_coef,
            entropy_coef=entropy_coef,
            problems=clip_errors(clip_low=clip_low, clip_high=clip_high),
        )
        self.clip_low = clip_low
        self.clip_high = clip_high

    def objective(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch
    ) -> tuple[Tensor, dict[str, Tensor]]:
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
