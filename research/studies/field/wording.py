"""Estimates in words, for tables and the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping

from research.studies.field.reach import Estimate
from research.studies.field.standing import Standing


def describe(standing: Standing) -> str:
    """Return a line of text."""
    spread = f"{standing.level:.3f} ({standing.lowest:.3f} to {standing.highest:.3f})"
    tokens, seconds = standing.savings["generated_tokens"], standing.savings["seconds"]
    return f"{standing.method:<26} {spread}  tokens {times(tokens)}  seconds {times(seconds)}"


def describe_scales(scales: Mapping[str, Mapping[str, Estimate]]) -> str:
    """Return lines of text: how many times less each method spends along its whole run."""
    return "\n".join(
        [
            "times less along the whole run, and who is 1",
            *(
                f"    {method:<30} tokens {times(of['generated_tokens'])}  seconds {times(of['seconds'])}"
                for method, of in scales.items()
            ),
        ]
    )


def times(estimate: Estimate) -> str:
    """Write a ratio of costs.

    Example:
        >>> times(Estimate(1.5, 1.2, 1.9)), times(Estimate(0.8, 0.5, 1.1, is_bound=True))
        ('1.50 [1.20, 1.90]', 'not reached')
    """
    if estimate.is_bound:
        return "not reached"
    return f"{estimate.value:.2f}{interval(estimate, '.2f')}"


def interval(estimate: Estimate, form: str) -> str:
    """Write an interval in brackets, nothing where a single seed gives none."""
    return "" if math.isnan(estimate.low) else f" [{estimate.low:{form}}, {estimate.high:{form}}]"


def signed(estimate: Estimate) -> str:
    """Write a difference of held-out rates."""
    return f"{estimate.value:+.3f}{interval(estimate, '+.3f')}"
