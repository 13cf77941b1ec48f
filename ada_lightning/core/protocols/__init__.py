"""The contracts between the rooms. Every implementation is chosen by ``_target_`` in ``conf/``."""

from ada_lightning.core.protocols.advantage import Advantage, LogRatios, PassRate, States
from ada_lightning.core.protocols.curriculum import Curriculum, Recall, Usefulness
from ada_lightning.core.protocols.engine import RolloutEngine, VersionedEngine
from ada_lightning.core.protocols.estimator import PassRateEstimator, PromptEmbedding, Represent
from ada_lightning.core.protocols.objective import Objective
from ada_lightning.core.protocols.part import Part, Trait
from ada_lightning.core.protocols.policy_view import GradientNorm, PolicyView
from ada_lightning.core.protocols.prompt_source import PromptSource
from ada_lightning.core.protocols.refill import Refill
from ada_lightning.core.protocols.reward import Reward
from ada_lightning.core.protocols.sampler import Cut, PoolEnd, Sampler
from ada_lightning.core.protocols.selection import Selection

__all__ = [
    "Advantage",
    "Curriculum",
    "Cut",
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
    "Represent",
    "Reward",
    "RolloutEngine",
    "Sampler",
    "Selection",
    "States",
    "Trait",
    "Usefulness",
    "VersionedEngine",
]
