"""What pass rate to expect of a prompt before it is sampled, remembered across steps."""

from ada_lightning.estimators.beta_history import BetaHistory
from ada_lightning.estimators.ema import EmaEstimator
from ada_lightning.estimators.value_network import ValueNetworkEstimator

__all__ = ["BetaHistory", "EmaEstimator", "ValueNetworkEstimator"]
