"""Estimators of the update: what each kept response weighs, from statistics that travel with it.

Those that look at the whole rollout (:class:`~ada_lightning.protocols.RolloutAdvantage`) are asked once for all of it.
"""

from ada_lightning.advantages.accepted import AcceptedAdvantage
from ada_lightning.advantages.batch_whitened import BatchWhitenedAdvantage
from ada_lightning.advantages.exact import ExactAdvantage
from ada_lightning.advantages.gdpo import GdpoAdvantage
from ada_lightning.advantages.group_normalized import GroupNormalizedAdvantage
from ada_lightning.advantages.history_baseline import HistoryBaselineAdvantage
from ada_lightning.advantages.leave_one_out import LeaveOneOutAdvantage
from ada_lightning.advantages.max_rl import MaxRlAdvantage
from ada_lightning.advantages.novelty import NoveltyAdvantage
from ada_lightning.advantages.pool_mean import PoolMeanAdvantage
from ada_lightning.advantages.reinforce_plus_plus import ReinforcePlusPlusBaselineAdvantage
from ada_lightning.advantages.stratified import StratifiedAdvantage
from ada_lightning.advantages.weighted_leave_one_out import WeightedLeaveOneOutAdvantage

__all__ = [
    "AcceptedAdvantage",
    "BatchWhitenedAdvantage",
    "ExactAdvantage",
    "GdpoAdvantage",
    "GroupNormalizedAdvantage",
    "HistoryBaselineAdvantage",
    "LeaveOneOutAdvantage",
    "MaxRlAdvantage",
    "NoveltyAdvantage",
    "PoolMeanAdvantage",
    "ReinforcePlusPlusBaselineAdvantage",
    "StratifiedAdvantage",
    "WeightedLeaveOneOutAdvantage",
]
