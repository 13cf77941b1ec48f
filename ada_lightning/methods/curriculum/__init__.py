"""Which prompts a step trains on."""

from ada_lightning.methods.curriculum.difficulty_band import DifficultyBand
from ada_lightning.methods.curriculum.expected_usefulness import ExpectedUsefulness
from ada_lightning.methods.curriculum.greso import GresoCurriculum
from ada_lightning.methods.curriculum.near_target import NearTarget
from ada_lightning.methods.curriculum.posterior import PosteriorSampling
from ada_lightning.methods.curriculum.uniform import UniformCurriculum
from ada_lightning.methods.curriculum.usefulness import Learnability, SignalPerResponse

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
