"""Optimal budgeted rejection sampling: which drawn tokens to keep so that they look drawn from another policy."""

from __future__ import annotations

from torch import Tensor

from ada_lightning.training.losses.functional import ratio


def budgeted_acceptance(logprobs_K: Tensor, sampling_logprobs_K: Tensor, *, scale: float) -> Tensor:
    """Probability of keeping each token: ``min(1, p / (scale q))``.

    The tokens kept are distributed as ``min(q, p / scale) / Z`` with ``Z = sum_v min(q_v, p_v / scale)``, the share
    kept. Of all rules with this share it is the one whose result is closest to p.

    Args:
        logprobs_K: of the policy p that trains. Shape ``(K,)``, nats.
        sampling_logprobs_K: of the policy q that they were drawn from. Shape ``(K,)``, nats.
        scale: the larger, the fewer are kept and the closer they come to p; at ``max p/q`` they are drawn from p.

    Returns:
        Shape ``(K,)``, without gradient, in (0, 1].

    Source:
        Verine et al., "Optimal budgeted rejection sampling for generative models", arXiv:2311.00460; used per token in
        Jackpot, arXiv:2602.06107.

    Example:
        >>> import torch
        >>> p, q = torch.tensor([0.9, 0.1]).log(), torch.tensor([0.5, 0.5]).log()
        >>> budgeted_acceptance(p, q, scale=1.0).round(decimals=4)
        tensor([1.0000, 0.2000])
    """
    return (_ratio(logprobs_K, sampling_logprobs_K) / scale).clamp_max(1.0)


def acceptance_weight(logprobs_K: Tensor, sampling_logprobs_K: Tensor, *, scale: float, cap: float) -> Tensor:
    """Weight of a kept token in a sum over all drawn tokens: ``min(p / (a q), cap)``, a its acceptance.

    With acceptance ``min(1, p / (scale q))`` that is ``min(max(p / q, scale), cap)``. Without the cap the sum over kept
    tokens, divided by the number of *all* drawn tokens, has the expectation under p: ``q a * p / (a q) = p``.

    Args:
        logprobs_K: of p. Shape ``(K,)``, nats.
        sampling_logprobs_K: of q. Shape ``(K,)``, nats.
        scale: as in :func:`budgeted_acceptance`.
        cap: largest weight.

    Returns:
        Shape ``(K,)``, without gradient.
    """
    return _ratio(logprobs_K, sampling_logprobs_K).clamp(min=scale, max=cap)


def _ratio(logprobs_K: Tensor, sampling_logprobs_K: Tensor) -> Tensor:
    return ratio((logprobs_K - sampling_logprobs_K).detach())
