"""Divergence PPO (arXiv:2602.04879): tokens stop training by how far the distribution moved, not by their ratio.

Claim: a ratio over-penalises rare tokens, whose probability may triple without moving anything, and lets common ones
move far; the divergence of the distributions is what a trust region is about. Assumes that the engine's probabilities
are what was sampled from: it takes the place of the old policy. Degenerate case: engine and trainer agree and the
policy has not moved, where it is REINFORCE. Not to be taken for the DPPO that prunes prompts (arXiv:2603.04135).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ada_lightning.core.options import option, preset, use
from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.functional import ratio
from ada_lightning.training.losses.importance import ImportanceCorrection, TokenTruncation
from ada_lightning.training.losses.policy_gradient import PolicyGradientLoss
from ada_lightning.training.losses.terms import TensorAndSums, TokenTerms, negative_errors

_FLOOR = 1e-8
"""Keeps the logarithm of the other outcome finite where a token is nearly certain (the authors' code)."""


class TokenDivergence:
    """How far the policy moved from the engine at each token, estimated from the sampled token alone.

    Two-outcome divergences (is it this token or another) bound those of the whole distribution from below; those over
    the engine's top tokens would be closer and need its probabilities of them.
    """

    def __call__(self, logprobs_K: Tensor, sampling_logprobs_K: Tensor) -> Tensor:
        """Not negative, between the policy's and the engine's log-probabilities. Shapes ``(K,)``."""
        raise NotImplementedError


class BinaryTotalVariation(TokenDivergence):
    """``|p - mu|``, in [0, 1] (Binary-TV).

    Example:
        >>> BinaryTotalVariation()(torch.tensor([0.5]).log(), torch.tensor([0.75]).log())
        tensor([0.2500])
    """

    def __call__(self, logprobs_K: Tensor, sampling_logprobs_K: Tensor) -> Tensor:
        """Shape ``(K,)``."""
        return (logprobs_K.exp() - sampling_logprobs_K.exp()).abs()


class BinaryKl(TokenDivergence):
    """``mu log(mu / p) + (1 - mu) log((1 - mu) / (1 - p))``, in nats (Binary-KL).

    Example:
        >>> BinaryKl()(torch.tensor([0.5]).log(), torch.tensor([0.75]).log())
        tensor([0.1308])
    """

    def __call__(self, logprobs_K: Tensor, sampling_logprobs_K: Tensor) -> Tensor:
        """Shape ``(K,)``."""
        other_K = -torch.expm1(logprobs_K)
        sampling_other_K = -torch.expm1(sampling_logprobs_K)
        same = sampling_logprobs_K.exp() * (sampling_logprobs_K - logprobs_K)
        return same + sampling_other_K * ((sampling_other_K + _FLOOR) / (other_K + _FLOOR)).log()


@option("loss", "divergence_tv", choices={"reduction": "prompt_mean"}, divergence=use(BinaryTotalVariation))
@dataclass(kw_only=True, eq=False)
class DivergencePolicyLoss(PolicyGradientLoss):
    """Divergence PPO, Binary-TV: a token stops training by how far its probability moved from the engine's.

    arXiv:2602.04879, ``dppo_tv`` in verl. ``loss/reduction=prompt_mean`` is the authors' seq-mean-token-sum-norm, for
    groups of one size. The paper has no KL to the initial policy.

    ``A sg(min(p / mu, ratio_cap)) M log p`` per token, with p of the policy and mu of the engine. ``M = 0`` where the
    update would continue in a direction in which the policy has already gone too far. That is ``A > 0``, ``p > mu`` and
    a divergence above ``delta_high``; or ``A <= 0``, ``p < mu`` and one above ``delta_low``.

    The old log-probabilities are not used: ratio and divergence are between the current policy and the engine from the
    first update on. So the engine's mismatch is corrected by the ratio itself, and there is no other importance weight.

    Args:
        divergence: how far a token has moved.
        delta_low: largest divergence of a token whose probability is to fall and has fallen (paper).
        delta_high: largest divergence of a token whose probability is to rise and has risen (paper).
        ratio_cap: largest ratio that weighs a token; ``inf`` sets none. 3 in verl and in the authors' code.

    Source:
        ``dppo_tv`` and ``dppo_kl`` in verl: 0.15 for total variation, 0.05 for KL. The cap is ``clip_ratio_c``, which
        the configurations of verl (1dda039) and of the authors' sail-sg/Stable-RL (c6af1d1) always set to 3, so that 20
        and 10, to which their code falls back, never hold; verl's example script sets 10000.
    """

    importance: ImportanceCorrection = field(default_factory=TokenTruncation, init=False)
    importance_cap: float = field(default=0.0, init=False)
    divergence: TokenDivergence
    delta_low: float = 0.15
    delta_high: float = 0.15
    ratio_cap: float = 3.0

    def errors(self) -> list[str]:
        """The bounds, then what every loss has."""
        errors = negative_errors(delta_low=self.delta_low, delta_high=self.delta_high)
        if not self.ratio_cap > 0:
            errors.append(f"loss.ratio_cap must be positive (inf sets none); got {self.ratio_cap}")
        return [*errors, *super().errors()]

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
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

    def engine_caveat(self) -> str:
        """The ratio to the engine is the loss's own weight."""
        return (
            f"the loss weighs tokens by their ratio to the engine's probability, up to loss.ratio_cap = "
            f"{self.ratio_cap:g}; this corrects single tokens, not whole responses (sync/logprob_gap)"
        )

    def method_caveats(self) -> tuple[str, ...]:
        """The mask holds from the first update on."""
        return (
            "a token does not train if its probabilities in engine and trainer differ too much and the update would "
            f"move it further: {type(self.divergence).__name__} above {self.delta_low:g} falling, "
            f"{self.delta_high:g} rising",
        )

    def reuse_caveat(self) -> str:
        """How responses of an earlier policy are weighed."""
        return "the others weigh and mask tokens in the same way, by what the policy has become"


preset(
    "loss",
    "divergence_kl",
    "divergence_tv",
    text="Divergence PPO, Binary-KL (arXiv:2602.04879; dppo_kl in verl): as divergence_tv, with the KL divergence. "
    "Both bounds are the paper's, in nats.",
    divergence=use(BinaryKl),
    delta_low=0.05,
    delta_high=0.05,
)
