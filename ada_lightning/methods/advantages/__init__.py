"""Estimators of the update: what each kept response weighs, assigned once for a rollout."""

from ada_lightning.core.moved import lazily
from ada_lightning.methods.advantages.baselines import (
    BatchWhitenedAdvantage,
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.advantages.exact import ExactAdvantage, StratifiedAdvantage
from ada_lightning.methods.advantages.history import HistoryBaselineAdvantage, RoundedHistoryAdvantage

__all__ = [
    "BatchWhitenedAdvantage",
    "ExactAdvantage",
    "GroupNormalizedAdvantage",
    "HistoryBaselineAdvantage",
    "LeaveOneOutAdvantage",
    "PoolMeanAdvantage",
    "RoundedHistoryAdvantage",
    "StratifiedAdvantage",
    "WeightedLeaveOneOutAdvantage",
]

MOVED = {
    "AcceptedAdvantage": "ada_lightning.methods.published.raft",
    "DpoAdvantage": "ada_lightning.methods.published.preference",
    "GdpoAdvantage": "ada_lightning.methods.published.gdpo",
    "IpoAdvantage": "ada_lightning.methods.published.preference",
    "MaxRlAdvantage": "ada_lightning.methods.published.max_rl",
    "NoveltyAdvantage": "ada_lightning.methods.published.xrpo",
    "RepresentationPreferenceAdvantage": "ada_lightning.methods.published.representation_preference",
    "RewardDistillationAdvantage": "ada_lightning.methods.published.reward_distillation",
    "ShrinkageBaselineAdvantage": "ada_lightning.methods.published.shrinkage_baseline",
}
"""Classes that stored configurations look for here, and where they stand now."""
__getattr__ = lazily(__name__, MOVED)
