"""The contracts between the packages. Every implementation is chosen by ``_target_`` in ``conf/``."""

from ada_lightning.core.protocols.engine import RolloutEngine, VersionedEngine
from ada_lightning.core.protocols.part import GradientNorm, Part, PolicyView, Trait
from ada_lightning.core.protocols.sampling import (
    Curriculum,
    Cut,
    FollowUp,
    PassRateEstimator,
    PoolEnd,
    PromptEmbedding,
    Recall,
    Refill,
    RefillProgress,
    Represent,
    Sampler,
    StepCosts,
    Usefulness,
)
from ada_lightning.core.protocols.tasks import PromptSource, Reward
from ada_lightning.core.protocols.weighing import Advantage, LogRatios, Objective, PassRate, Selection, States

__all__ = [
    "Advantage",
    "Curriculum",
    "Cut",
    "FollowUp",
    "GradientNorm",
    "LogRatios",
    "Objective",
    "Part",
    "PassRate",
    "PassRateEstimator",
    "PolicyView",
    "PoolEnd",
    "PromptEmbedding",
    "PromptSource",
    "Recall",
    "Refill",
    "RefillProgress",
    "Represent",
    "Reward",
    "RolloutEngine",
    "Sampler",
    "Selection",
    "States",
    "StepCosts",
    "Trait",
    "Usefulness",
    "VersionedEngine",
]
