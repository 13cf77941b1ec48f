"""Adaptive sampling in other loops: as a library (:class:`~ada_lightning.adapters.core.Core`) and in other trainers.

Those with a memory drive a :class:`~ada_lightning.adapters.brain.Brain`.
``docs/own_loop.md`` and ``docs/trl.md`` are the pages.
"""

from ada_lightning.adapters.brain import Brain
from ada_lightning.adapters.core import Core
from ada_lightning.adapters.pools import Pool, Pools, Row

__all__ = ["Brain", "Core", "Pool", "Pools", "Row"]
