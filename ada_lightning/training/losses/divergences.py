"""How far the policy moved at a token, estimated from the sampled token alone: is it this token or another.

Two-outcome divergences bound those of the whole distribution from below; those over the engine's top tokens would be
closer and need its probabilities of them.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

_FLOOR = 1e-8
"""Keeps the logarithm of the other outcome finite where a token is nearly certain (the authors' code)."""


class TokenDivergence(Protocol):
    """Divergence between engine and policy at each token."""

    def __call__(self, logprobs_K: Tensor, sampling_logprobs_K: Tensor) -> Tensor:
        """Not negative. Shape ``(K,)``.

        Args:
            logprobs_K: of the policy. Shape ``(K,)``, nats.
            sampling_logprobs_K: of the engine. Shape ``(K,)``, nats.
        """
        ...


class BinaryTotalVariation:
    """``|p - mu|``, in [0, 1].

    Source:
        arXiv:2602.04879 (Binary-TV).

    Example:
        >>> BinaryTotalVariation()(torch.tensor([0.5]).log(), torch.tensor([0.75]).log())
        tensor([0.2500])
    """

    def __call__(self, logprobs_K: Tensor, sampling_logprobs_K: Tensor) -> Tensor:
        """Shape ``(K,)``."""
        return (logprobs_K.exp() - sampling_logprobs_K.exp()).abs()


class BinaryKl:
    """``mu log(mu / p) + (1 - mu) log((1 - mu) / (1 - p))``, in nats.

    Source:
        arXiv:2602.04879 (Binary-KL).

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
