"""Divergence PPO (arXiv:2602.04879): tokens stop training by how far the distribution moved, not by their ratio.

Claim: a ratio over-penalises rare tokens, whose probability may triple without moving anything, and lets common ones
move far; the divergence of the distributions is what a trust region is about. Assumes that the engine's probabilities
are what was sampled from: it takes the place of the old policy. Degenerate case: engine and trainer agree and the
policy has not moved, where it is REINFORCE. Not to be taken for the DPPO that prunes prompts (arXiv:2603.04135).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.training.losses.divergences import TokenDivergence
from ada_lightning.training.losses.functional.policy_gradient import ratio
from ada_lightning.training.losses.policy_gradient import TOKEN_TRUNCATION, PolicyGradientLoss, negative_errors
from ada_lightning.training.losses.terms import LossReduction, TokenTerms


class DivergencePolicyLoss(PolicyGradientLoss):
    """``A sg(min(p / mu, ratio_cap)) M log p`` per token, with p of the policy and mu of the engine.

    ``M = 0`` where the update would go on in the direction in which the policy has gone too far already: ``A > 0``,
    ``p > mu`` and a divergence above ``delta_high``; or ``A <= 0``, ``p < mu`` and one above ``delta_low``.

    The old log-probabilities are not used: ratio and divergence are between the current policy and the engine from the
    first update on. So the engine's mismatch is corrected by the ratio itself, and there is no other importance weight.

    Args:
        reduction: how token terms are summed.
        divergence: of :mod:`ada_lightning.training.losses.divergences`.
        delta_low: largest divergence of a token whose probability is to fall and has fallen.
        delta_high: largest divergence of a token whose probability is to rise and has risen.
        ratio_cap: largest ratio that weighs a token; ``inf`` sets none.
        kl_coef: of the KL to the frozen initial policy; 0 loads no reference.
        entropy_coef: of the entropy bonus.

    Raises:
        ValueError: a negative coefficient, or a cap that is not positive; all in one message.

    Source:
        arXiv:2602.04879; ``dppo_tv`` and ``dppo_kl`` in verl. 0.15 for total variation and 0.05 for KL. The cap is
        ``clip_ratio_c``, which the configurations of verl (1dda039) and of the authors' Stable-RL (c6af1d1) always set
        to 3, so that 20 and 10, to which their code falls back, never hold; verl's example script sets 10000.
    """

    def __init__(
        self,
        *,
        reduction: LossReduction,
        divergence: TokenDivergence,
        delta_low: float,
        delta_high: float,
        ratio_cap: float = 3.0,
        kl_coef: float = 0.0,
        entropy_coef: float = 0.0,
    ) -> None:
        problems = negative_errors(delta_low=delta_low, delta_high=delta_high)
        if not ratio_cap > 0:
            problems.append(f"loss.ratio_cap must be positive (.inf sets none); got {ratio_cap}")
        super().__init__(
            reduction=reduction,
            importance=TOKEN_TRUNCATION,
            importance_cap=0.0,
            kl_coef=kl_coef,
            entropy_coef=entropy_coef,
            problems=problems,
        )
        self.divergence = divergence
        self.delta_low = delta_low
        self.delta_high = delta_high
        self.ratio_cap = ratio_cap

    def objective(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """``A sg(min(p / mu, ratio_cap)) M log p``. Shape ``(K,)``."""
        advantages_K = advantages_B[terms.response_K]
        current_K, engine_K = terms.logprobs_K.detach(), terms.sampling_logprobs_K
        weight_K = ratio(current_K - engine_K).clamp_max(self.ratio_cap)
        divergence_K = self.divergence(current_K, engine_K)
        is_masked_K = torch.where(
            advantages_K > 0,
            (divergence_K > self.delta_high) & (current_K > engine_K),
            (divergence_K > self.delta_low) & (current_K < engine_K),
        )
        objective_K = advantages_K * weight_K * ~is_masked_K * terms.logprobs_K
        return objective_K, {
            "clip_ratio": is_masked_K.sum(),
            "importance_weight": weight_K.sum(),
            "divergence": divergence_K.sum(),
            "divergence_max": divergence_K.max(),
        }

    def importance_bend(self) -> str:
        """The ratio to the engine is the loss's own weight."""
        return (
            f"the loss weighs tokens by their ratio to the engine's probability, up to loss.ratio_cap = "
            f"{self.ratio_cap:g}, which corrects single tokens, not responses (sync/logprob_gap)"
        )

    def method_bends(self) -> tuple[str, ...]:
        """The mask holds from the first update on."""
        return (
            "tokens whose probability the engine and the trainer put too far apart do not train if the update would "
            f"move it further: {type(self.divergence).__name__} above {self.delta_low:g} falling, "
            f"{self.delta_high:g} rising",
        )

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        return "the others weigh and mask tokens in the same way, by what the policy has become"
