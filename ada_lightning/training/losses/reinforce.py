"""REINFORCE (Williams 1992): advantage times the gradient of the log-probability, without ratio and clip.

Claim: with one update per rollout nothing else is needed (Ahmadian et al., arXiv:2402.14740; RLOO, REINFORCE++ and GPG
train like this). Assumes that responses come from the current policy. Degenerate case: several updates per rollout,
whose later ones follow the gradient at a policy that did not sample them.
"""

from __future__ import annotations

from torch import Tensor

from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.policy_gradient import PolicyGradientLoss
from ada_lightning.training.losses.terms import TensorAndSums, TokenTerms


class ReinforceLoss(PolicyGradientLoss):
    """``A log pi`` per token.

    The old log-probabilities are used for the engine's importance weight only, ``pi_old / pi_engine``; with
    ``importance_cap=0`` not at all.
    """

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
        """``A log pi``. Shape ``(K,)``."""
        return advantages_B[terms.response_K] * terms.logprobs_K, {}

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        return "the others take its responses as if they were their own: no ratio corrects for it"
