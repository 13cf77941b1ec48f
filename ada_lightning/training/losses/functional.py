"""Parts of objectives: ratios, their clips, KL, weights of the pool, sums over whole responses."""

from __future__ import annotations

import torch
from torch import Tensor

MAX_LOG_RATIO = 20.0
"""Cap on the absolute log ratio, so that a broken engine cannot overflow the exponential (official code: 20)."""


def clipped(ratio_K: Tensor, advantages_K: Tensor, *, clip_low: float, clip_high: float) -> tuple[Tensor, Tensor]:
    """PPO's pessimistic objective with separate lower and upper clips.

    Args:
        ratio_K: current over old policy, of tokens or of their responses, with gradient. Shape ``(K,)``.
        advantages_K: of the token's response. Shape ``(K,)``.
        clip_low: ratios are clipped below at ``1 - clip_low``.
        clip_high: and above at ``1 + clip_high`` ("clip higher").

    Returns:
        ``min(ratio A, clip(ratio) A)`` to be maximised, and True where the clip is active. Shapes ``(K,)``.

    Source:
        PPO, arXiv:1707.06347, eq. 7; DAPO, arXiv:2503.14476, eq. 10.

    Example:
        >>> from torch import tensor
        >>> clipped(tensor([0.5]), tensor([-1.0]), clip_low=0.2, clip_high=0.2)
        (tensor([-0.8000]), tensor([True]))
    """
    clipped_ratio_K = ratio_K.clamp(1 - clip_low, 1 + clip_high)
    free_K, clipped_K = ratio_K * advantages_K, clipped_ratio_K * advantages_K
    return torch.minimum(free_K, clipped_K), clipped_K < free_K


def ratio(log_ratio_K: Tensor) -> Tensor:
    """Exponentiate log ratios, capped at :data:`MAX_LOG_RATIO` in size. Any shape."""
    return log_ratio_K.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()


def kl_to_reference(logprobs_K: Tensor, reference_logprobs_K: Tensor) -> Tensor:
    """Low-variance, non-negative estimate of KL(policy || reference) per token (Schulman's k3).

    Returns:
        ``exp(d) - 1 - d`` with ``d = reference - policy``, of log-probabilities in nats. Shape ``(K,)``.

    Source:
        http://joschu.net/blog/kl-approx.html; DeepSeekMath, arXiv:2402.03300, eq. 4.
    """
    difference_K = (reference_logprobs_K - logprobs_K).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return difference_K.exp() - 1 - difference_K


def response_sums(values_K: Tensor, response_K: Tensor, num_responses: int) -> Tensor:
    """Sum over the tokens of each response, which no split of a batch ever cuts.

    Returns:
        Shape ``(B,)``; a response without tokens has the sum 0.

    Example:
        >>> from torch import tensor
        >>> response_sums(tensor([1.0, 2.0, 5.0]), tensor([0, 0, 2]), 3)
        tensor([3., 0., 5.])
    """
    return values_K.new_zeros(num_responses).index_add(0, response_K, values_K)


def response_means(values_K: Tensor, weights_K: Tensor, response_K: Tensor, num_responses: int) -> Tensor:
    """Weighted mean over the tokens of each response; 0 where all weights are. Else as :func:`response_sums`.

    Example:
        >>> from torch import tensor
        >>> response_means(tensor([1.0, 2.0, 5.0]), tensor([1.0, 3.0, 0.0]), tensor([0, 0, 2]), 3)
        tensor([1.7500, 0.0000, 0.0000])
    """
    total_B = response_sums(weights_K, response_K, num_responses)
    sum_B = response_sums(values_K * weights_K, response_K, num_responses)
    return sum_B / total_B.where(total_B > 0, 1.0)
