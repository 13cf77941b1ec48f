"""Nested settings on one level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested settings.

    Example:
        >>> flat({"sampler": {"k_pos": 2, "give_up": {}}, "betas": [0.9, 0.999]})
        {'sampler.k_pos': 2, 'sampler.give_up': {}, 'betas': [0.9, 0.999]}
    """
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            values |= flat(value, f"{prefix}{key}.")
        else:
            values[f"{prefix}{key}"] = value
    return values
