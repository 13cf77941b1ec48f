"""Sums and means of token figures over whole responses. A response is never split between microbatches."""

from __future__ import annotations

from torch import Tensor


def response_sums(values_K: Tensor, response_K: Tensor, num_responses: int) -> Tensor:
    """Sum over the tokens of each response.

    Args:
        values_K: per token. Shape ``(K,)``.
        response_K: response of each token. Shape ``(K,)``, int64.
        num_responses: B; one without tokens has the sum 0.

    Returns:
        Shape ``(B,)``.

    Example:
        >>> from torch import tensor
        >>> response_sums(tensor([1.0, 2.0, 5.0]), tensor([0, 0, 2]), 3)
        tensor([3., 0., 5.])
    """
    return values_K.new_zeros(num_responses).index_add(0, response_K, values_K)


def response_means(values_K: Tensor, weights_K: Tensor, response_K: Tensor, num_responses: int) -> Tensor:
    """Weighted mean over the tokens of each response; 0 where all weights are.

    Args:
        values_K: per token. Shape ``(K,)``.
        weights_K: not negative. Shape ``(K,)``.
        response_K: response of each token. Shape ``(K,)``, int64.
        num_responses: B.

    Returns:
        Shape ``(B,)``.

    Example:
        >>> from torch import tensor
        >>> response_means(tensor([1.0, 2.0, 5.0]), tensor([1.0, 3.0, 0.0]), tensor([0, 0, 2]), 3)
        tensor([1.7500, 0.0000, 0.0000])
    """
    total_B = response_sums(weights_K, response_K, num_responses)
    sum_B = response_sums(values_K * weights_K, response_K, num_responses)
    return sum_B / total_B.where(total_B > 0, 1.0)
