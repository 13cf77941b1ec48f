"""Mean and spread of rewards from sums and counts, elementwise over responses."""

from __future__ import annotations

from torch import Tensor


def centered(rewards_B: Tensor, reward_sum_B: Tensor, count_B: Tensor) -> Tensor:
    """Subtract the mean that the sums describe.

    Args:
        rewards_B: reward of each response. Shape ``(B,)``.
        reward_sum_B: sum of rewards over the set the response is compared with. Shape ``(B,)``.
        count_B: size of that set, at least 1. Shape ``(B,)``.

    Returns:
        Shape ``(B,)``.

    Raises:
        ValueError: the shapes differ; they would broadcast silently.

    Example:
        >>> from torch import tensor
        >>> centered(tensor([1.0, 0.0]), tensor([2.0, 2.0]), tensor([8.0, 8.0]))
        tensor([ 0.7500, -0.2500])
    """
    if not rewards_B.shape == reward_sum_B.shape == count_B.shape:
        raise ValueError(
            f"shapes differ: rewards {tuple(rewards_B.shape)}, sums {tuple(reward_sum_B.shape)}, "
            f"counts {tuple(count_B.shape)}"
        )
    return rewards_B - reward_sum_B / count_B


def unbiased_std(squared_deviation_B: Tensor, count_B: Tensor) -> Tensor:
    """Standard deviation with ``n - 1`` in the denominator; 0 where a set has fewer than two responses.

    Args:
        squared_deviation_B: sum of squared distances from the mean. Shape ``(B,)``.
        count_B: number of rewards. Shape ``(B,)``.

    Returns:
        Shape ``(B,)``, not negative.

    Example:
        >>> from torch import tensor
        >>> unbiased_std(tensor([1.0]), tensor([4.0]))
        tensor([0.5774])
    """
    return (squared_deviation_B / (count_B - 1).clamp_min(1.0)).sqrt()
