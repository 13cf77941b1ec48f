"""RAFT++ (arXiv:2504.11343): rejection sampling with PPO's ratio and clip. Only positives train.

Claim: fitting the accepted responses comes near GRPO, whose gain lies in leaving out prompts without any. Assumes that
negatives have nothing to say; entropy falls faster without them. Degenerate case: a prompt without a positive adds
nothing, one without a negative trains all the same.
"""

from __future__ import annotations

from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.training.losses.clipped import ClippedPolicyLoss
from ada_lightning.training.losses.policy_gradient import TOKEN_TRUNCATION
from ada_lightning.training.losses.terms import ImportanceCorrection, LossReduction, TokenTerms


class RaftLoss(ClippedPolicyLoss):
    """``min(ratio, 1 + clip_high) A`` on the tokens of positives, 0 on those of negatives.

    ``advantage=accepted`` weighs every positive by 1, which is the paper's loss; another advantage weighs positives by
    its own and loses its negative half. The lower clip of the paper never holds: the minimum takes the ratio below it.

    The ratio is current over old policy: the first update with a rollout is plain fitting of the positives. The paper
    averages over accepted responses and their tokens: ``selection=positives loss/reduction=response_mean``. Its code
    averages over the tokens of all drawn responses, wrong ones with advantage 0: ``selection=all
    loss/reduction=token_mean``. The former weighs a step with few right responses more.

    Args:
        reduction: how token terms are summed.
        clip_high: upper clip of the ratio.
        importance: how the engine's mismatch is corrected, see :mod:`ada_lightning.training.losses.importance`.
        importance_cap: largest weight of that correction; 0 switches it off.
        kl_coef: of the KL to the frozen initial policy; 0 loads no reference.
        entropy_coef: of the entropy bonus.

    Raises:
        ValueError: a negative coefficient; all in one message.

    Source:
        Xiong et al., arXiv:2504.11343, section 2 (RAFT++); code ``RLHFlow/Minimal-RL`` at e3b49f0,
        ``verl/trainer/ppo/core_algos.py``. GVM, arXiv:2505.02391, trains with it.
    """

    def __init__(
        self,
        *,
        reduction: LossReduction,
        clip_high: float = 0.2,
        importance: ImportanceCorrection = TOKEN_TRUNCATION,
        importance_cap: float = 2.0,
        kl_coef: float = 0.0,
        entropy_coef: float = 0.0,
    ) -> None:
        super().__init__(
            reduction=reduction,
            clip_low=1.0,  # no ratio is below 0
            clip_high=clip_high,
            importance=importance,
            importance_cap=importance_cap,
            kl_coef=kl_coef,
            entropy_coef=entropy_coef,
        )

    def objective(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """``min(ratio, 1 + clip_high) A`` of positives. Shape ``(K,)``."""
        return super().objective(terms, advantages_B * microbatch.is_positive_B, microbatch)

    def method_bends(self) -> tuple[str, ...]:
        """Negatives do not train."""
        return ("the loss trains positives only: an advantage of negatives, if there is one, is left out",)

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        return f"the others weigh tokens by ratios, clipped at 1 + {self.clip_high:g}"
