"""Which prompts a step trains on."""

from ada_lightning.core.moved import lazily
from ada_lightning.methods.curriculum.auto import AutoCurriculum
from ada_lightning.methods.curriculum.ranked import (
    DifficultyBand,
    DiverseUsefulness,
    ExpectedUsefulness,
    PosteriorSampling,
)
from ada_lightning.methods.curriculum.uniform import UniformCurriculum
from ada_lightning.methods.curriculum.usefulness import Learnability, SignalPerResponse

__all__ = [
    "AutoCurriculum",
    "DifficultyBand",
    "DiverseUsefulness",
    "ExpectedUsefulness",
    "Learnability",
    "PosteriorSampling",
    "SignalPerResponse",
    "UniformCurriculum",
]
_PUBLISHED = "ada_lightning.methods.published"
__getattr__ = lazily(
    __name__,
    {
        "GresoCurriculum": f"{_PUBLISHED}.greso",
        "NearTarget": f"{_PUBLISHED}.mopps",
        "PromptReplay": f"{_PUBLISHED}.prompt_replay",
        "RetiredCurriculum": f"{_PUBLISHED}.recycling",
        "WeightedDraw": f"{_PUBLISHED}.spo",
    },
)
