"""A step has the prompts it has."""

from __future__ import annotations

from ada_lightning.core.protocols import Refill


class NoRefill(Refill):
    """Every prompt of a step counts, with or without a signal, and none is drawn in its stead. Costs nothing."""
