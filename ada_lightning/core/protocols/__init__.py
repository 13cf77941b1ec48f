"""The contracts between the rooms. Every implementation is chosen by ``_target_`` in ``conf/``."""

from ada_lightning.core.protocols.advantage import Advantage, PassRate
from ada_lightning.core.protocols.curriculum import Curriculum, LearningCurriculum, Usefulness
from ada_lightning.core.protocols.engine import RolloutEngine
from ada_lightning.core.protocols.estimator import PassRateEstimator, PromptEmbedding, RememberingEstimator
from ada_lightning.core.protocols.objective import Objective
from ada_lightning.core.protocols.part import Part, Trait
from ada_lightning.core.protocols.policy_reader import GradientNorm, PolicyReader, PolicyView
from ada_lightning.core.protocols.prompt_source import PromptSource
from ada_lightning.core.protocols.refill import Refill
from ada_lightning.core.protocols.reward import Reward
from ada_lightning.core.protocols.sampler import PoolEnd, Sampler
from ada_lightning.core.protocols.selection import Selection

__all__ = [
    "Advantage",
    "Curriculum",
    "GradientNorm",
    "LearningCurriculum",
    "Objective",
    "Part",
    "PassRate",
    "PassRateEstimator",
    "PolicyReader",
    "PolicyView",
    "PoolEnd",
    "PromptEmbedding",
    "PromptSource",
    "Refill",
    "RememberingEstimator",
    "Reward",
    "RolloutEngine",
    "Sampler",
    "Selection",
    "Trait",
    "Usefulness",
]
