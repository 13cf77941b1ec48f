"""Sentences about what several trainers do, so that their cards say it alike."""

from __future__ import annotations

from collections.abc import Sequence


def clipped(low: float, high: float, *, dual: float | None = None) -> str:
    """Say how the ratio is clipped.

    Args:
        low: below 1, as the trainer's settings have it.
        high: above 1.
        dual: largest ratio with a negative advantage; None: no such bound.
    """
    more = "" if dual is None else f"; with a negative advantage it is at most {dual:g}"
    return f"the ratio is clipped to {1 - low:g} .. {1 + high:g}{more}"


def shortens(setting: str, norm: float) -> str:
    """Say what a bound of the gradient's norm does."""
    return f"{setting} = {norm:g} can shorten an update. It does not turn it."


def other_distribution(settings: Sequence[str]) -> str:
    """Say what settings of sampling change."""
    return f"{', '.join(settings)}: responses come from another distribution than the one that trains."


def not_known(reward: str) -> str:
    """Say that no configuration has the reward."""
    return f"{reward}. Other rewards than 0 and 1 have other weights."
