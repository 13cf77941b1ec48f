"""How much better than expected each kept response was. The seam for objective weights and estimators."""

from ada_lightning.advantages.group_normalized import GroupNormalizedAdvantage
from ada_lightning.advantages.pool_mean import PoolMeanAdvantage

__all__ = ["GroupNormalizedAdvantage", "PoolMeanAdvantage"]
