"""Which prompts a step trains on."""

from ada_lightning.curriculum.difficulty_band import DifficultyBand
from ada_lightning.curriculum.expected_usefulness import ExpectedUsefulness
from ada_lightning.curriculum.greso import GresoCurriculum
from ada_lightning.curriculum.near_target import NearTarget
from ada_lightning.curriculum.posterior import PosteriorSampling
from ada_lightning.curriculum.uniform import UniformCurriculum
from ada_lightning.curriculum.usefulness import Learnability, SignalPerResponse

__all__ = [
    "DifficultyBand",
    "ExpectedUsefulness",
    "GresoCurriculum",
    "Learnability",
    "NearTarget",
    "PosteriorSampling",
    "SignalPerResponse",
    "UniformCurriculum",
]
