"""Variance of a prompt's gradient estimate by its number of responses, for the advantages of which it is known.

The estimate is the mean over a prompt's n responses of advantage times score. With rewards that are uncorrelated with
the projected score, whose variance is the same for all prompts, it is ``p (1-p) * variance(n)`` up to that constant
(VIP, arXiv:2602.01601, assumption 4.1, propositions 4.2 and 4.3; for rewards of -1 and 1 times 4). The mean over a
prompt's responses is what ``loss/reduction=prompt_mean`` computes.
"""

from __future__ import annotations

from typing import Protocol


class GradientVariance(Protocol):
    """How the variance depends on n, in units of ``p (1-p)`` times the score's variance."""

    fewest: int
    """From here on it falls by less and less with every response (convex), so that a greedy division is the best."""

    def __call__(self, num_responses: int) -> float:
        """Variance of the mean over ``num_responses``."""
        ...

    def gain(self, num_responses: int) -> float:
        """By how much one response more lowers it."""
        ...


class RlooVariance:
    """``1 / (n-1)``: reward minus the mean of the others (``advantage=rloo``).

    Source:
        VIP, arXiv:2602.01601, proposition 4.3.

    Example:
        >>> RlooVariance()(3), RlooVariance().gain(3)
        (0.5, 0.16666666666666666)
    """

    fewest = 2

    def __call__(self, num_responses: int) -> float:
        """For 2 responses or more."""
        return 1.0 / (num_responses - 1)

    def gain(self, num_responses: int) -> float:
        """``1/(n-1) - 1/n``, without the cancellation."""
        return 1.0 / (num_responses * (num_responses - 1))


class DrGrpoVariance:
    """``(n-1) / n^2``: reward minus the mean of the group (``advantage=dr_grpo``).

    A single response has variance 0, and no gradient either. The second raises the variance, the third lowers it by
    less than the fourth; only from 3 on is it convex.

    Source:
        VIP, arXiv:2602.01601, proposition 4.2.

    Example:
        >>> DrGrpoVariance()(2), DrGrpoVariance().gain(2)
        (0.25, 0.027777777777777776)
    """

    fewest = 3

    def __call__(self, num_responses: int) -> float:
        """For any number."""
        return (num_responses - 1) / num_responses**2

    def gain(self, num_responses: int) -> float:
        """``(n-1)/n^2 - n/(n+1)^2``, without the cancellation."""
        n = num_responses
        return (n * n - n - 1) / (n * (n + 1)) ** 2


class KnownBaselineVariance:
    """``1 / n``: reward minus an expectation that no response of the group has a part in.

    That of ``advantage=history_baseline`` as far as its belief outweighs the group. With a cost of each response its
    division is ``n ~ sigma / sqrt(cost)``.

    Source:
        Neyman 1934; with tokens as cost DUET, arXiv:2605.08441.

    Example:
        >>> KnownBaselineVariance()(4), KnownBaselineVariance().gain(4)
        (0.25, 0.05)
    """

    fewest = 1

    def __call__(self, num_responses: int) -> float:
        """For 1 response or more."""
        return 1.0 / num_responses

    def gain(self, num_responses: int) -> float:
        """``1/n - 1/(n+1)``, without the cancellation."""
        return 1.0 / (num_responses * (num_responses + 1))
