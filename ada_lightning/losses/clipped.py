"""The policy loss: clipped objective, truncated importance sampling, KL to a reference, entropy bonus."""

from __future__ import annotations

import torch
from torch import Tensor

from ada_lightning.batch import BatchCounts, Microbatch
from ada_lightning.functional.policy_gradient import clipped_objective, kl_to_reference, truncated_importance
from ada_lightning.functional.pool_weights import pool_weights
from ada_lightning.losses.terms import LossReduction, TokenTerms


class ClippedPolicyLoss:
    """Policy-gradient loss of Reinforce-Ada and GRPO.

    KL and entropy are those of the pool, not of the kept responses: each response's part is weighted by
    :func:`~ada_lightning.functional.pool_weights.pool_weights`, since a group that is half positives says little about
    what the policy usually does. Advantages bring their own weights.

    Args:
        reduction: how token terms are summed.
        clip_low: lower clip of the ratio.
        clip_high: upper clip of the ratio.
        importance_cap: largest weight of the truncated importance correction for the engine's mismatch; 0 switches the
            correction off.
        kl_coef: of the KL to the frozen initial policy; 0 loads no reference.
        entropy_coef: of the entropy bonus.

    Raises:
        ValueError: a negative coefficient, or a clip outside its range; all in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, eq. 3 and section 4.1 (clip 0.2/0.28, no KL).
    """

    def __init__(
        self,
        *,
        reduction: LossReduction,
        clip_low: float = 0.2,
        clip_high: float = 0.28,
        importance_cap: float = 2.0,
        kl_coef: float = 0.0,
        entropy_coef: float = 0.0,
    ) -> None:
        errors = [
            f"loss.{name} must not be negative; got {value}"
            for name, value in (
                ("clip_high", clip_high),
                ("importance_cap", importance_cap),
                ("kl_coef", kl_coef),
                ("entropy_coef", entropy_coef),
            )
            if value < 0
        ]
        if not 0 <= clip_low <= 1:
            errors.append(f"loss.clip_low must be in [0, 1]; got {clip_low}")
        if errors:
            raise ValueError("; ".join(errors))
        self.reduction = reduction
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.importance_cap = importance_cap
        self.kl_coef = kl_coef
        self.entropy_coef = entropy_coef

    @property
    def needs_reference(self) -> bool:
        """Whether a frozen reference must be loaded."""
        return self.kl_coef > 0

    @property
    def needs_groups_without_signal(self) -> bool:
        """Whether responses with zero advantage contribute, through KL or entropy."""
        return self.kl_coef > 0 or self.entropy_coef > 0

    needs_hidden = False

    @property
    def needs_entropy_gradient(self) -> bool:
        """Whether the entropy bonus is on."""
        return self.entropy_coef > 0

    def __call__(
        self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch, counts: BatchCounts
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of one microbatch, already divided by the global counts: microbatch losses add up.

        Args:
            terms: per token.
            advantages_B: weight included. Shape ``(B,)``.
            microbatch: where the tokens come from.
            counts: global denominators.

        Returns:
            The scalar loss, and sums over tokens for logging (keys ending in ``_max`` are maxima; those named in
            ``POOL_WEIGHTED`` are to be divided by the sum ``pool_weight`` instead of by the number of tokens).
        """
        objective_K, is_clipped_K = clipped_objective(
            terms.logprobs_K,
            terms.old_logprobs_K,
            advantages_B[terms.response_K],
            clip_low=self.clip_low,
            clip_high=self.clip_high,
        )
        pool_weights_K = pool_weights(microbatch)[terms.response_K]
        gap_K = (terms.old_logprobs_K - terms.sampling_logprobs_K).abs()
        sums = {"clip_ratio": is_clipped_K.sum(), "logprob_gap": gap_K.sum(), "logprob_gap_max": gap_K.max()}
        if self.importance_cap > 0:
            weight_K = truncated_importance(terms.old_logprobs_K, terms.sampling_logprobs_K, cap=self.importance_cap)
            sums["importance_weight"] = weight_K.sum()
            objective_K = objective_K * weight_K
        objective_K = objective_K * terms.mask_K
        if self.kl_coef > 0:
            kl_K = pool_weights_K * kl_to_reference(terms.logprobs_K, terms.reference_logprobs_K)
            sums["kl"] = kl_K.sum()
            objective_K = objective_K - self.kl_coef * kl_K
        entropy_K = pool_weights_K * terms.entropy_K
        if self.entropy_coef > 0:
            objective_K = objective_K + self.entropy_coef * entropy_K
        sums["entropy"] = entropy_K.sum()
        sums["pool_weight"] = pool_weights_K.sum()
        token_weights_K = self.reduction.token_weights(microbatch, counts)[terms.response_K]
        loss = -(token_weights_K * objective_K).sum()
        return loss, {name: value.detach().to(torch.float32) for name, value in sums.items()}

    def bends(self) -> list[str]:
        """Importance weights, KL and entropy."""
        if self.importance_cap > 0:
            lines = [
                f"loss.importance_cap = {self.importance_cap:g} corrects tokens for the engine's own probabilities, "
                "and bends the update by about that gap (sync/logprob_gap)"
            ]
        else:
            lines = [
                "loss.importance_cap = 0: the engine's probabilities are not quite the trainer's (sync/logprob_gap), "
                "and nothing corrects for it"
            ]
        for name, value in (("kl_coef", self.kl_coef), ("entropy_coef", self.entropy_coef)):
            if value > 0:
                lines.append(f"loss.{name} = {value:g} adds a term that is no part of f")
        return lines

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        return f"the others weigh tokens by ratios, clipped at 1 - {self.clip_low:g} and 1 + {self.clip_high:g}"
