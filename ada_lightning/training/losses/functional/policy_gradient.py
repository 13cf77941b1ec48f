"""Parts of policy-gradient objectives, per token: ratios, their clips, corrections."""

from __future__ import annotations

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0
"""Cap on the absolute log ratio, so that a broken engine cannot overflow the exponential (official code: 20)."""


def clipped_objective(
    logprobs_K: Tensor, old_logprobs_K: Tensor, advantages_K: Tensor, *, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor]:
    """PPO's pessimistic objective with separate lower and upper clips.

    Args:
        logprobs_K: current policy, with gradient. Shape ``(K,)``, nats.
        old_logprobs_K: the policy before the first update with this rollout. Shape ``(K,)``, no gradient.
        advantages_K: of the token's response. Shape ``(K,)``.
        clip_low: ratios are clipped below at ``1 - clip_low``.
        clip_high: and above at ``1 + clip_high`` ("clip higher").

    Returns:
        ``min(ratio A, clip(ratio) A)`` to be maximised, and True where the clip is active. Shapes ``(K,)``.

    Source:
        PPO, arXiv:1707.06347, eq. 7; DAPO, arXiv:2503.14476, eq. 10.

    Example:
        >>> from torch import tensor
        >>> clipped_objective(tensor([0.5]), tensor([0.0]), tensor([1.0]), clip_low=0.2, clip_high=0.28)
        (tensor([1.2800]), tensor([True]))
    """
    return clipped_by_ratio(ratio(logprobs_K - old_logprobs_K), advantages_K, clip_low=clip_low, clip_high=clip_high)


def clipped_by_ratio(
    ratio_K: Tensor, advantages_K: Tensor, *, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor]:
    """As :func:`clipped_objective`, for ratios of any kind, such as those of whole responses.

    Example:
        >>> from torch import tensor
        >>> clipped_by_ratio(tensor([0.5]), tensor([-1.0]), clip_low=0.2, clip_high=0.2)
        (tensor([-0.8000]), tensor([True]))
    """
    clipped_ratio_K = ratio_K.clamp(1 - clip_low, 1 + clip_high)
    free_K, clipped_K = ratio_K * advantages_K, clipped_ratio_K * advantages_K
    return torch.minimum(free_K, clipped_K), clipped_K < free_K


def dual_clipped(objective_K: Tensor, advantages_K: Tensor, *, cap: float) -> tuple[Tensor, Tensor]:
    """Bound the objective of negative advantages, which the pessimistic minimum leaves without a bound.

    Args:
        objective_K: as :func:`clipped_objective` gives it. Shape ``(K,)``.
        advantages_K: of the token's response. Shape ``(K,)``.
        cap: largest ratio that a negative advantage is multiplied by, finite.

    Returns:
        ``max(objective, cap A)`` where ``A < 0``, and True where that changed it. Shapes ``(K,)``.

    Source:
        Ye et al. 2019, arXiv:1912.09729 (dual-clip PPO).
    """
    bound_K = cap * advantages_K
    is_bound_K = (advantages_K < 0) & (objective_K < bound_K)
    return torch.where(is_bound_K, bound_K, objective_K), is_bound_K


def ratio(log_ratio_K: Tensor) -> Tensor:
    """Exponentiate log ratios, capped at :data:`MAX_LOG_RATIO` in size. Any shape."""
    return log_ratio_K.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def truncated_importance(old_logprobs_K: Tensor, sampling_logprobs_K: Tensor, *, cap: float) -> Tensor:
    """Weight that corrects for the engine having sampled from slightly other probabilities than the trainer's.

    Args:
        old_logprobs_K: the trainer's. Shape ``(K,)``, nats.
        sampling_logprobs_K: the engine's. Shape ``(K,)``, nats.
        cap: largest weight.

    Returns:
        ``min(pi_trainer / pi_engine, cap)`` per token, without gradient. Shape ``(K,)``.

    Source:
        Yao et al., "Your efficient RL framework secretly brings you off-policy RL training" (2025), token level.
    """
    return ratio((old_logprobs_K - sampling_logprobs_K).detach()).clamp_max(cap)


def kl_to_reference(logprobs_K: Tensor, reference_logprobs_K: Tensor) -> Tensor:
    """Low-variance, non-negative estimate of KL(policy || reference) per token (Schulman's k3).

    Args:
        logprobs_K: current policy, with gradient. Shape ``(K,)``, nats.
        reference_logprobs_K: frozen reference. Shape ``(K,)``, nats.

    Returns:
        ``exp(d) - 1 - d`` with ``d = reference - policy``. Shape ``(K,)``.

    Source:
        http://joschu.net/blog/kl-approx.html; DeepSeekMath, arXiv:2402.03300, eq. 4.
    """
    difference_K = (reference_logprobs_K - logprobs_K).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return difference_K.exp() - 1 - difference_K
