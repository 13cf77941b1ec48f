"""How per-token terms become one number: each rule is a weight per token, from global counts only.

None of them looks at the microbatch, so any split of a batch gives the same gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ada_lightning.core.options import option
from ada_lightning.training.batch import BatchCounts, Microbatch
from ada_lightning.training.losses.terms import LossReduction

_TOKENS = "${rollout.sampling.max_new_tokens}"


class _ConstantLength(LossReduction):
    """Divides token sums by a constant length.

    Args:
        token_scale: that length in tokens, usually ``max_new_tokens``.

    Raises:
        ValueError: ``token_scale`` is not positive.
    """

    def __init__(self, *, token_scale: float) -> None:
        if token_scale <= 0:
            raise ValueError(f"loss.reduction.token_scale must be positive; got {token_scale}")
        self.token_scale = float(token_scale)


@option("loss/reduction", "constant", token_scale=_TOKENS)
class ConstantReduction(_ConstantLength):
    """Token sums over prompts sampled times a constant length: the only rule that keeps an exact estimator exact.

    Prompts without signal count too, and no random quantity stands in the denominator.

    Source:
        Dr. GRPO, arXiv:2503.20783 (constant instead of length).
    """

    def token_weights(self, microbatch: Microbatch, counts: BatchCounts) -> Tensor:
        """See :class:`LossReduction`."""
        return torch.full_like(microbatch.rewards_B, 1.0 / (counts.num_prompts * self.token_scale))

    def caveat(self) -> str:
        """It turns nothing."""
        return ""


@option("loss/reduction", "prompt_mean", token_scale=_TOKENS)
class PromptMeanReduction(_ConstantLength):
    """Mean over prompts of the mean over their kept responses of the token sum, over a constant length."""

    def token_weights(self, microbatch: Microbatch, counts: BatchCounts) -> Tensor:
        """See :class:`LossReduction`."""
        return 1.0 / (counts.num_prompts * self.token_scale * microbatch.group_size_B)

    def caveat(self) -> str:
        """A ratio, where groups differ in size."""
        return (
            "loss/reduction=prompt_mean divides by the kept responses of a prompt, whose number differs between groups"
        )


@option("loss/reduction", "response_mean")
class ResponseMeanReduction(LossReduction):
    """Mean over kept responses of the mean over their tokens: GRPO's original, biased towards short responses.

    Source:
        DeepSeekMath, arXiv:2402.03300, eq. 3.
    """

    def token_weights(self, microbatch: Microbatch, counts: BatchCounts) -> Tensor:
        """See :class:`LossReduction`."""
        return 1.0 / (counts.num_responses * microbatch.num_tokens_B.clamp_min(1))

    def caveat(self) -> str:
        """Lengths."""
        return "loss/reduction=response_mean divides each response by its own length, which changes the direction"


@option("loss/reduction", "token_mean")
class TokenMeanReduction(LossReduction):
    """Sum over tokens divided by the number of kept tokens, those of prompts without signal included.

    A ratio of two random quantities, and it weights prompts by their tokens.

    Source:
        DAPO, arXiv:2503.14476, eq. 8; Reinforce-Ada's script (there per microbatch, which this is not).
    """

    def token_weights(self, microbatch: Microbatch, counts: BatchCounts) -> Tensor:
        """See :class:`LossReduction`."""
        return torch.full_like(microbatch.rewards_B, 1.0 / max(counts.num_response_tokens, 1.0))

    def caveat(self) -> str:
        """A ratio."""
        return "loss/reduction=token_mean divides by the number of kept tokens, which varies; less with many prompts"
