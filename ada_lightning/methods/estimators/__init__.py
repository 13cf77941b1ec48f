"""What pass rate to expect of a prompt before it is sampled, remembered across steps."""

from ada_lightning.methods.estimators.beta_history import BetaHistory
from ada_lightning.methods.estimators.ema import EmaEstimator
from ada_lightning.methods.estimators.gaussian_process import GaussianProcessEstimator
from ada_lightning.methods.estimators.kl_history import KlHistory
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
    "KlHistory",
    "MedianDistance",
    "PolicyEmbedding",
    "SimilarPrompts",
    "ValueNetworkEstimator",
    "WindowEstimator",
    "WordEmbedding",
]
