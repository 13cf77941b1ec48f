"""GSPO, arXiv:2507.18071: one ratio for a whole response, its geometric mean over the tokens.

Claim: rewards belong to sequences, so ratios and clips should too; token ratios add noise that grows with the length
and breaks mixtures of experts. Assumes that a response's probability drifts evenly over its tokens: one token that
moved far is averaged away. Degenerate case: a response of one token, where it is PPO's clip.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.functional import clipped, ratio, response_means
from ada_lightning.training.losses.policy_gradient import RatioClippingLoss
from ada_lightning.training.losses.terms import TensorAndSums, TokenTerms


@dataclass(kw_only=True, eq=False)
class GspoLoss(RatioClippingLoss):
    """``min(s A, clip(s) A)`` with ``s = (pi(y) / pi_old(y))^(1/|y|)``, the same for all tokens of a response.

    Written in the paper's token form (eq. 13), ``s_t = sg(s) pi_t / sg(pi_t)``, whose value and gradient are those of
    the sequence form (eq. 5) where all tokens of a response share one advantage, as they do here; with token masks the
    mean and the sum are over the tokens that train. So there is no GSPO-token to choose.

    The ratio is current over old policy: the first update with a rollout clips nothing. Clip ranges are those of a mean
    over many tokens, a thousandth of PPO's. ``loss/reduction=response_mean`` is the paper's. Token importance weights
    differ within a response; ``loss/importance=sequence_truncation`` or ``sequence_rejection`` keep it whole.

    Source:
        Eq. 5, 7 and 13-14; section 5.1 for 3e-4 and 4e-4.
    """

    clip_low: float = 3e-4
    clip_high: float = 4e-4

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
        """``min(s_t A, clip(s_t) A)``. Shape ``(K,)``."""
        current_K = terms.logprobs_K.detach()
        log_ratio_B = response_means(
            current_K - terms.old_logprobs_K, terms.mask_K, terms.response_K, advantages_B.numel()
        )
        # The difference of the large numbers first: clips of 3e-4 leave no room for float32's rounding of their sum.
        log_ratio_K = (terms.logprobs_K - current_K) + log_ratio_B[terms.response_K]
        objective_K, is_clipped_K = clipped(
            ratio(log_ratio_K), advantages_B[terms.response_K], clip_low=self.clip_low, clip_high=self.clip_high
        )
        return objective_K, {"clip_ratio": is_clipped_K.sum()}

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        return (
            "the others weigh responses by the geometric mean of their ratios, clipped at "
            f"1 - {self.clip_low:g} and 1 + {self.clip_high:g}"
        )
