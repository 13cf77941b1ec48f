"""What a random subset of a prompt's graded responses looks like: hypergeometric, exact for the responses drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def chance_all_in_class(num_in_class: int, num_responses: int) -> NDArray[np.float64]:
    """Chance that k responses, taken at random without putting back, all belong to one class, for every k.

    ``C(c, k) / C(n, k)``, the unbiased estimate of ``p^k`` from n responses of which c are of a class of probability p.
    A product of ratios in [0, 1]: no factorial overflows and no difference cancels.

    Args:
        num_in_class: responses of the class, c.
        num_responses: responses, n.

    Returns:
        Shape ``(n,)``, for k = 1 to n.

    Raises:
        ValueError: not ``0 <= num_in_class <= num_responses``.

    Example:
        >>> chance_all_in_class(2, 4).round(4).tolist()
        [0.5, 0.1667, 0.0, 0.0]
    """
    if not 0 <= num_in_class <= num_responses:
        raise ValueError(f"{num_in_class} of {num_responses} responses cannot be of one class")
    taken_k = np.arange(num_responses)
    left_in_class_k = np.maximum(num_in_class - taken_k, 0)
    return np.cumprod(left_in_class_k / (num_responses - taken_k))


def pass_at_k(num_positive: int, num_responses: int) -> NDArray[np.float64]:
    """Chance that at least one of k responses is positive, for every k (Chen et al. 2021, arXiv:2107.03374).

    ``1 - C(n - c, k) / C(n, k)``: unbiased for ``1 - (1 - p)^k``, unlike ``1 - (1 - c/n)^k``.

    Args:
        num_positive: positive responses, c.
        num_responses: graded responses, n.

    Returns:
        Shape ``(n,)``, for k = 1 to n.

    Raises:
        ValueError: not ``0 <= num_positive <= num_responses``.

    Example:
        >>> pass_at_k(1, 4).round(4).tolist()
        [0.25, 0.5, 0.75, 1.0]
    """
    return 1.0 - chance_all_in_class(num_responses - num_positive, num_responses)
