"""What was set differently, and what was set alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ada_lightning.analysis.report.method import ABSENT, Method, differing_keys, short

MEASUREMENT = ("callbacks.evaluation.num_", "callbacks.evaluation.sampling.", "data.source.", "reward.reward.")
"""Settings that decide how the held-out figure is measured."""


@dataclass(frozen=True)
class Setting:
    """One key of the settings."""

    key: str
    values: list[Any]
    """One per method, or a single one where all agree."""

    @property
    def texts(self) -> list[str]:
        """The values as the page shows them."""
        return [short(value) for value in self.values]


def differences(methods: Sequence[Method]) -> tuple[list[Setting], list[Setting]]:
    """Return the keys whose values differ among methods, and those they share, each in the order of the settings."""
    settings = [method.settings for method in methods]
    differing = differing_keys(settings)
    apart = [Setting(key, [values.get(key, ABSENT) for values in settings]) for key in differing]
    shared = [Setting(key, [value]) for key, value in methods[0].settings.items() if key not in differing]
    return apart, shared


def measured_differently(methods: Sequence[Method]) -> list[str]:
    """Keys that differ among methods and decide how the held-out figure is measured."""
    return [key for key in differing_keys([method.settings for method in methods]) if key.startswith(MEASUREMENT)]
