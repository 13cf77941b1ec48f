"""Which prompts a step trains on."""

from ada_lightning.methods.curriculum.difficulty_band import DifficultyBand
from ada_lightning.methods.curriculum.diverse_usefulness import DiverseUsefulness
from ada_lightning.methods.curriculum.expected_usefulness import ExpectedUsefulness
from ada_lightning.methods.curriculum.greso import GresoCurriculum
from ada_lightning.methods.curriculum.near_target import NearTarget
from ada_lightning.methods.curriculum.posterior import PosteriorSampling
from ada_lightning.methods.curriculum.prompt_replay import PromptReplay
from ada_lightning.methods.curriculum.retired import RetiredCurriculum
from ada_lightning.methods.curriculum.uniform import UniformCurriculum
from ada_lightning.methods.curriculum.usefulness import Learnability, SignalPerResponse
from ada_lightning.methods.curriculum.weighted_draw import WeightedDraw

__all__ = [
    "DifficultyBand",
    "DiverseUsefulness",
    "ExpectedUsefulness",
    "GresoCurriculum",
    "Learnability",
    "NearTarget",
    "PosteriorSampling",
    "PromptReplay",
    "RetiredCurriculum",
    "SignalPerResponse",
    "UniformCurriculum",
    "WeightedDraw",
]
