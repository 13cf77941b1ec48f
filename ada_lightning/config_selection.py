"""Checks across selection and advantage: whether the advantage is the one that the selection assumes."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from ada_lightning.config_problems import class_at


def selection_errors(cfg: DictConfig) -> Iterator[str]:
    """Yield one message per problem. Classes that cannot be loaded are reported by themselves."""
    from ada_lightning.advantages import GroupNormalizedAdvantage, LeaveOneOutAdvantage
    from ada_lightning.selection import (
        BanditSelection,
        FixedFractionPruning,
        LargestAdvantageBatchSelection,
        LargestAdvantageSelection,
        PruningSelection,
    )

    of_pool = (
        BanditSelection,
        FixedFractionPruning,
        LargestAdvantageBatchSelection,
        LargestAdvantageSelection,
        PruningSelection,
    )
    selection, advantage = class_at(cfg, "selection"), class_at(cfg, "advantage")
    if issubclass(selection, of_pool) and issubclass(advantage, GroupNormalizedAdvantage | LeaveOneOutAdvantage):
        yield (
            f"selection: {selection.__name__} takes advantages over the whole pool, and {advantage.__name__} compares "
            "with what was kept of it; use advantage=official, with advantage.normalize_std=true for GRPO's"
        )
