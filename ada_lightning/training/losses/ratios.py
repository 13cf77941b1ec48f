"""Losses that bound a ratio to the old policy: PPO's clip, RAFT++, GSPO, CISPO."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from ada_lightning.core.options import option, preset
from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.functional import clipped, ratio, response_means
from ada_lightning.training.losses.policy_gradient import PolicyGradientLoss
from ada_lightning.training.losses.terms import TensorAndSums, TokenTerms, clip_errors


@dataclass(kw_only=True, eq=False)
class RatioClippingLoss(PolicyGradientLoss):
    """A policy-gradient loss that bounds a ratio to the old policy, each in its own way.

    Args:
        clip_low: ratios are clipped below at ``1 - clip_low``, in [0, 1].
        clip_high: and above at ``1 + clip_high``.
        anchor: which policy is the old one. ``proximal``: the trainer's before the first update with a rollout, so that
            with one update per rollout every ratio is 1 and nothing is ever clipped. ``behaviour``: the one that
            sampled, by the engine's log-probabilities, as PPO was published; then the ratio is the correction for the
            engine and the clip a bound on how far an older policy may be left behind. Needs ``importance_cap=0``.

    Source:
        Proximal and behaviour policy: Hilton et al., arXiv:2110.00641.
    """

    clip_low: float
    clip_high: float
    anchor: Literal["proximal", "behaviour"] = "proximal"

    def errors(self) -> list[str]:
        """The clips and the anchor, then what every loss has."""
        errors = clip_errors(clip_low=self.clip_low, clip_high=self.clip_high)
        if self.anchor not in ("proximal", "behaviour"):
            errors.append(f"loss.anchor must be proximal or behaviour; got {self.anchor!r}")
        if self.anchor == "behaviour" and self.importance_cap > 0:
            errors.append(
                f"loss.anchor=behaviour takes ratios to the engine's probabilities, so loss.importance_cap = "
                f"{self.importance_cap:g} would correct nothing; use loss.importance_cap=0"
            )
        return [*errors, *super().errors()]

    def anchored(self, terms: TokenTerms) -> TokenTerms:
        """Take ratios to the engine's log-probabilities, where they are the anchor."""
        if self.anchor == "proximal":
            return terms
        return replace(terms, old_logprobs_K=terms.sampling_logprobs_K)

    def engine_caveat(self) -> str:
        """What becomes of the engine's mismatch; the ratio itself is the correction where it is taken to the engine."""
        if self.anchor == "proximal":
            return super().engine_caveat()
        return (
            "loss.anchor = behaviour: the ratios of the loss are taken to the engine's own probabilities; this "
            "corrects for them where nothing is clipped, and it clips from the first update on"
        )


@option("loss", "clipped", choices={"reduction": "constant", "importance": "token_truncation"})
@dataclass(kw_only=True, eq=False)
class ClippedPolicyLoss(RatioClippingLoss):
    """PPO's clipped objective, as GRPO, DAPO and Reinforce-Ada use it: ``min(ratio A, clip(ratio) A)`` per token.

    The ratio is current over old policy, so the first update with a rollout clips nothing and has the plain policy
    gradient. Where the advantage is negative a ratio above 1 is not clipped, and one token that became much more
    probable can outweigh a batch: ``dual_clip`` bounds it, but has no gradient beyond it.

    Args:
        dual_clip: largest ratio of a token with a negative advantage; ``inf`` sets no bound. 3 in verl, 10 in the
            scripts of DAPO, VIP and Reinforce-Ada.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, eq. 3 and section 4.1 (clip 0.2/0.28, no KL). Dual clip: Ye et al. 2019,
        arXiv:1912.09729.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float = math.inf

    def errors(self) -> list[str]:
        """The clips, then what every loss has."""
        own = [f"loss.dual_clip must be above 1 (inf sets no bound); got {self.dual_clip}"]
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

    def reuse_caveat(self) -> str:
        """How responses of an earlier policy are weighed."""
        text = f"the others weigh tokens by ratios, clipped at 1 - {self.clip_low:g} and 1 + {self.clip_high:g}"
        return f"{text}, and at {self.dual_clip:g} for negative advantages" if math.isfinite(self.dual_clip) else text


preset(
    "loss",
    "grpo",
    "clipped",
    text="GRPO's loss as published (DeepSeekMath, arXiv:2402.03300, eq. 3 and section 4.2): mean over responses of the "
    "mean over their tokens, KL to the initial policy. The clip is PPO's 0.2, of which the paper says nothing. A cap "
    "of 2 bounds the mismatch of engine and trainer, of which it knows nothing. Goes with advantage=grpo.",
    choices={"reduction": "response_mean"},
    clip_low=0.2,
    clip_high=0.2,
    importance_cap=0.0,
    kl_coef=0.04,
)
preset(
    "loss",
    "dr_grpo",
    "clipped",
    text="Dr. GRPO's loss as published (arXiv:2503.20783): token sums over a constant length, mean over responses (of "
    "groups of one size), no KL. A cap of 2 bounds the mismatch of engine and trainer, of which the paper knows "
    "nothing. Goes with advantage=dr_grpo.",
    choices={"reduction": "prompt_mean"},
    clip_low=0.2,
    clip_high=0.2,
    importance_cap=0.0,
)
preset(
    "loss",
    "dapo",
    "clipped",
    text="DAPO's loss as published (arXiv:2503.14476, eq. 8 and section 4.1): clip higher, mean over tokens, no KL. "
    "The dual clip is that of its script (verl-recipe, clip_ratio_c), which weighs nothing by the engine's "
    "log-probabilities: a cap of 2 bounds the mismatch of engine and trainer, of which script and paper know nothing.",
    choices={"reduction": "token_mean"},
    clip_low=0.2,
    clip_high=0.28,
    dual_clip=10.0,
    importance_cap=0.0,
)


@option("loss", "raft_plus_plus", choices={"reduction": "response_mean", "importance": "token_truncation"})
@dataclass(kw_only=True, eq=False)
class RaftLoss(ClippedPolicyLoss):
    """RAFT++ (arXiv:2504.11343, section 2): rejection sampling with PPO's ratio and upper clip. Only positives train.

    ``min(ratio, 1 + clip_high) A`` on the tokens of positives, 0 on those of negatives. ``advantage=accepted`` weighs
    every positive by 1, which is the paper's loss; another advantage weighs positives by its own and loses its negative
    half. The lower clip of the paper never holds: the minimum takes the ratio below it.

    The ratio is current over old policy: the first update with a rollout is plain fitting of the positives. The paper
    averages over accepted responses and their tokens: ``selection=positives loss/reduction=response_mean``. Its code
    averages over the tokens of all drawn responses, wrong ones with advantage 0: ``selection=all
    loss/reduction=token_mean``. The former weighs a step with few right responses more. GVM, whose prompts weigh the
    same, has ``loss/reduction=prompt_mean``.

    Claim: fitting the accepted responses comes near GRPO, whose gain lies in leaving out prompts without any. Assumes
    that negatives have nothing to say; entropy falls faster without them. Degenerate case: a prompt without a positive
    adds nothing, one without a negative trains all the same.

    Args:
        clip_high: ratios are clipped above at ``1 + clip_high`` (authors' code; GVM's script for RAFT++: 0.28).
        kl_coef: of the KL to the frozen initial policy; above 0 loads a second model. Authors' and GVM's code: 0.001.
        entropy_coef: of the entropy bonus; 0: none. Authors' code: 0.001.

    Source:
        Code ``RLHFlow/Minimal-RL`` at e3b49f0, ``verl/trainer/ppo/core_algos.py``. GVM, arXiv:2505.02391, trains with
        it.
    """

    clip_low: float = field(default=1.0, init=False)  # no ratio is below 0
    clip_high: float = 0.2
    dual_clip: float = field(default=math.inf, init=False)

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
        """``min(ratio, 1 + clip_high) A`` of positives. Shape ``(K,)``."""
        return super().objective(terms, advantages_B * microbatch.is_positive_B, microbatch)

    def method_caveats(self) -> tuple[str, ...]:
        """Negatives do not train."""
        return ("the loss trains right responses only: advantages of wrong ones, if there are any, are left out",)

    def reuse_caveat(self) -> str:
        """How responses of an earlier policy are weighed."""
        return f"the others weigh tokens by ratios, clipped at 1 + {self.clip_high:g}"


@option("loss", "gspo", choices={"reduction": "response_mean", "importance": "sequence_truncation"})
@dataclass(kw_only=True, eq=False)
class GspoLoss(RatioClippingLoss):
    """GSPO (arXiv:2507.18071): one ratio for a whole response, its geometric mean over the tokens.

    ``min(s A, clip(s) A)`` with ``s = (pi(y) / pi_old(y))^(1/|y|)``, the same for all tokens of a response. It is
    written in the paper's token form (eq. 13), ``s_t = sg(s) pi_t / sg(pi_t)``. Its value and gradient are those of the
    sequence form (eq. 5) if all tokens of a response share one advantage, as they do here. With token masks the mean
    and the sum are over the tokens that train. So there is no GSPO-token to choose.

    The ratio is current over old policy: the first update with a rollout clips nothing. Clip ranges are those of a mean
    over many tokens, a thousandth of PPO's. ``loss/reduction=response_mean`` is the paper's, eq. 5. Token importance
    weights differ within a response; ``loss/importance=sequence_truncation`` or ``sequence_rejection`` keep it
    whole, in the method's spirit (ours). The paper has no KL.

    Claim: rewards belong to sequences, so ratios and clips should too; token ratios add noise that grows with the
    length and breaks mixtures of experts. Assumes that a response's probability drifts evenly over its tokens: one
    token that moved far is averaged away. Degenerate case: a response of one token, where it is PPO's clip.

    Args:
        clip_low: the response's ratio is clipped below at ``1 - clip_low``.
        clip_high: and above at ``1 + clip_high``.

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

    def reuse_caveat(self) -> str:
        """How responses of an earlier policy are weighed."""
        return (
            "the others weigh responses by the geometric mean of their ratios, clipped at "
            f"1 - {self.clip_low:g} and 1 + {self.clip_high:g}"
        )


@option("loss", "cispo", choices={"reduction": "token_mean", "importance": "token_truncation"})
@dataclass(kw_only=True, eq=False)
class CispoLoss(RatioClippingLoss):
    """CISPO (MiniMax-M1, arXiv:2506.13585, eq. 4-5): clipped weights instead of clipped gradients, mean over tokens.

    ``sg(clip(ratio)) A log pi`` per token. The ratio is current over old policy: the first update with a rollout has
    weights of 1. The paper has no KL, and takes the mean over tokens (eq. 4).

    Claim: PPO's clip silences rare tokens ("wait", "however") after the first update, for they move most; here they go
    on training, with a bounded weight. Assumes that weights near the cap are better than none: nothing keeps the policy
    near the old one but the cap. Degenerate case: ratios of 1, where it is REINFORCE.

    Args:
        clip_low: weights are at least ``1 - clip_low``; 1: no lower bound, as in the paper.
        clip_high: and at most ``1 + clip_high``. The paper names no number: 5 is what TRL advises after ScaleRL,
            arXiv:2510.13786; verl's script has 0.2.
    """

    clip_low: float = 1.0
    clip_high: float = 4.0

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
        """``sg(clip(ratio)) A log pi``. Shape ``(K,)``."""
        ratio_K = ratio(terms.logprobs_K.detach() - terms.old_logprobs_K)
        weight_K = ratio_K.clamp(1 - self.clip_low, 1 + self.clip_high)
        objective_K = weight_K * advantages_B[terms.response_K] * terms.logprobs_K
        return objective_K, {"clip_ratio": (weight_K != ratio_K).sum()}

    def reuse_caveat(self) -> str:
        """How responses of an earlier policy are weighed."""
        return (
            "the others weigh the gradient of every token by its ratio, bounded by "
            f"{1 - self.clip_low:g} and {1 + self.clip_high:g}"
        )
