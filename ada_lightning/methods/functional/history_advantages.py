"""Advantages against what was expected of a prompt before its responses were drawn."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.records import Belief


def history_advantages(rewards: Sequence[float], belief: Belief) -> list[float]:
    """Return ``r - (k m + sum of the other rewards) / (k + n - 1)`` of each of n rewards.

    Args:
        rewards: of responses to one prompt.
        belief: about its pass rate before the step; m is its mean, ``k = alpha + beta`` its strength.

    Example:
        >>> history_advantages([1.0, 0.0], Belief(alpha=2.0, beta=1.0))
        [0.5, -0.75]
    """
    total, strength = sum(rewards), belief.alpha + belief.beta
    return [reward - (belief.alpha + total - reward) / (strength + len(rewards) - 1) for reward in rewards]
