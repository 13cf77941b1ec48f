"""What pass rate to expect of a prompt before it is sampled, remembered across steps.

Each is loaded when it is asked for: two of them need torch, and those who use another do not wait for it.
"""

from typing import TYPE_CHECKING

from ada_lightning.core.moved import lazily

if TYPE_CHECKING:
    from ada_lightning.methods.estimators.beta_history import BetaHistory
    from ada_lightning.methods.estimators.counting import EmaEstimator, WindowEstimator
    from ada_lightning.methods.estimators.gaussian_process import (
        FixedLengthScale,
        GaussianProcessEstimator,
        MedianDistance,
        PolicyEmbedding,
    )
    from ada_lightning.methods.estimators.sentence_encoder import SentenceEncoder
    from ada_lightning.methods.estimators.similar_prompts import SimilarPrompts
    from ada_lightning.methods.estimators.value_network import ValueNetworkEstimator
    from ada_lightning.methods.estimators.word_embedding import WordEmbedding

__all__ = [
    "BetaHistory",
    "EmaEstimator",
    "FixedLengthScale",
    "GaussianProcessEstimator",
    "MedianDistance",
    "PolicyEmbedding",
    "SentenceEncoder",
    "SimilarPrompts",
    "ValueNetworkEstimator",
    "WindowEstimator",
    "WordEmbedding",
]
__getattr__ = lazily(
    __name__,
    {
        "BetaHistory": f"{__name__}.beta_history",
        "EmaEstimator": f"{__name__}.counting",
        "FixedLengthScale": f"{__name__}.gaussian_process",
        "GaussianProcessEstimator": f"{__name__}.gaussian_process",
        "KlHistory": "ada_lightning.methods.published.spo",
        "MedianDistance": f"{__name__}.gaussian_process",
        "PolicyEmbedding": f"{__name__}.gaussian_process",
        "SentenceEncoder": f"{__name__}.sentence_encoder",
        "SimilarPrompts": f"{__name__}.similar_prompts",
        "ValueNetworkEstimator": f"{__name__}.value_network",
        "WindowEstimator": f"{__name__}.counting",
        "WordEmbedding": f"{__name__}.word_embedding",
    },
)
