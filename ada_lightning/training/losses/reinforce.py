"""REINFORCE (Williams 1992): advantage times the gradient of the log-probability, without ratio and clip.

Claim: with one update per rollout nothing else is needed (Ahmadian et al., arXiv:2402.14740; RLOO, REINFORCE++ and GPG
train like this). Assumes that responses come from the current policy. Degenerate case: several updates per rollout,
whose later ones follow the gradient at a policy that did not sample them.
"""

from __future__ import annotations

from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.training.losses.policy_gradient import TOKEN_TRUNCATION, PolicyGradientLoss
from ada_lightning.training.losses.terms import ImportanceCorrection, LossReduction, TokenTerms


class ReinforceLoss(PolicyGradientLoss):
    """``A log pi`` per token.

    The old log-probabilities are used for the engine's importance weight only, ``pi_old / pi_engine``; with
    ``importance_cap=0`` not at all.

    Args:
        reduction: how token terms are summed.
        importance: how the engine's mismatch is corrected, see :mod:`ada_lightning.training.losses.importance`.
        importance_cap: largest weight of that correction; 0 switches it off.
        kl_coef: of the KL to the frozen initial policy; 0 loads no reference.
        entropy_coef: of the entropy bonus.

    Raises:
        ValueError: a negative coefficient; all in one message.

    Source:
        Williams 1992; Ahmadian et al., arXiv:2402.14740.
    """

    def __init__(
        self,
        *,
        reduction: LossReduction,
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
            problems=(),
        )

    def objective(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """``A log pi``. Shape ``(K,)``."""
        return advantages_B[terms.response_K] * terms.logprobs_K, {}

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        return "the others take its responses as if they were their own: no ratio corrects for it"
