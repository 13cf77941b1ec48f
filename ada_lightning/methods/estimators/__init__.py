"""What pass rate to expect of a prompt before it is sampled, remembered across steps.

Each is loaded when it is asked for: two of them need torch, and those who use another do not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ada_lightning.methods.estimators.beta_history import BetaHistory
    from ada_lightning.methods.estimators.ema import EmaEstimator
    from ada_lightning.methods.estimators.gaussian_process import GaussianProcessEstimator
    from ada_lightning.methods.estimators.length_scale import FixedLengthScale, MedianDistance
    from ada_lightning.methods.estimators.policy_embedding import PolicyEmbedding
    from ada_lightning.methods.estimators.similar_prompts import SimilarPrompts
    from ada_lightning.methods.estimators.value_network import ValueNetworkEstimator
    from ada_lightning.methods.estimators.window import WindowEstimator
    from ada_lightning.methods.estimators.word_embedding import WordEmbedding

__all__ = [
    "BetaHistory",
    "EmaEstimator",
    "FixedLengthScale",
    "GaussianProcessEstimator",
    "MedianDistance",
    "PolicyEmbedding",
    "SimilarPrompts",
    "ValueNetworkEstimator",
    "WindowEstimator",
    "WordEmbedding",
]
_MODULES = {
    "BetaHistory": "beta_history",
    "EmaEstimator": "ema",
    "FixedLengthScale": "length_scale",
    "GaussianProcessEstimator": "gaussian_process",
    "MedianDistance": "length_scale",
    "PolicyEmbedding": "policy_embedding",
    "SimilarPrompts": "similar_prompts",
    "ValueNetworkEstimator": "value_network",
    "WindowEstimator": "window",
    "WordEmbedding": "word_embedding",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
