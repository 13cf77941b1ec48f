"""Estimators of the update: what each kept response weighs, assigned once for a rollout."""

from ada_lightning.core.moved import lazily
from ada_lightning.methods.advantages.accepted import AcceptedAdvantage
from ada_lightning.methods.advantages.batch_whitened import BatchWhitenedAdvantage
from ada_lightning.methods.advantages.exact import ExactAdvantage
from ada_lightning.methods.advantages.gdpo import GdpoAdvantage
from ada_lightning.methods.advantages.group_normalized import GroupNormalizedAdvantage
from ada_lightning.methods.advantages.history_baseline import HistoryBaselineAdvantage
from ada_lightning.methods.advantages.leave_one_out import LeaveOneOutAdvantage
from ada_lightning.methods.advantages.max_rl import MaxRlAdvantage
from ada_lightning.methods.advantages.pool_mean import PoolMeanAdvantage
from ada_lightning.methods.advantages.preference import DpoAdvantage, IpoAdvantage
from ada_lightning.methods.advantages.representation_preference import RepresentationPreferenceAdvantage
from ada_lightning.methods.advantages.reward_distillation import RewardDistillationAdvantage
from ada_lightning.methods.advantages.rounded_history import RoundedHistoryAdvantage
from ada_lightning.methods.advantages.shrinkage_baseline import ShrinkageBaselineAdvantage
from ada_lightning.methods.advantages.stratified import StratifiedAdvantage
from ada_lightning.methods.advantages.weighted_leave_one_out import WeightedLeaveOneOutAdvantage

MOVED = {
    "NoveltyAdvantage": "ada_lightning.methods.published.xrpo",
}
"""Names under which stored configurations know classes that moved."""
__getattr__ = lazily(__name__, MOVED)

__all__ = [
    "AcceptedAdvantage",
    "BatchWhitenedAdvantage",
    "DpoAdvantage",
    "ExactAdvantage",
    "GdpoAdvantage",
    "GroupNormalizedAdvantage",
    "HistoryBaselineAdvantage",
    "IpoAdvantage",
    "LeaveOneOutAdvantage",
    "MaxRlAdvantage",
    "PoolMeanAdvantage",
    "RepresentationPreferenceAdvantage",
    "RewardDistillationAdvantage",
    "RoundedHistoryAdvantage",
    "ShrinkageBaselineAdvantage",
    "StratifiedAdvantage",
    "WeightedLeaveOneOutAdvantage",
]
