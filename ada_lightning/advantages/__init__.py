"""Estimators of the update: what each kept response weighs, from statistics that travel with it."""

from ada_lightning.advantages.accepted import AcceptedAdvantage
from ada_lightning.advantages.exact import ExactAdvantage
from ada_lightning.advantages.group_normalized import GroupNormalizedAdvantage
from ada_lightning.advantages.leave_one_out import LeaveOneOutAdvantage
from ada_lightning.advantages.novelty import NoveltyAdvantage
from ada_lightning.advantages.pool_mean import PoolMeanAdvantage
from ada_lightning.advantages.stratified import StratifiedAdvantage
from ada_lightning.advantages.weighted_leave_one_out import WeightedLeaveOneOutAdvantage

__all__ = [
    "AcceptedAdvantage",
    "ExactAdvantage",
    "GroupNormalizedAdvantage",
    "LeaveOneOutAdvantage",
    "NoveltyAdvantage",
    "PoolMeanAdvantage",
    "StratifiedAdvantage",
    "WeightedLeaveOneOutAdvantage",
]
