"""What pass rate to expect of a prompt before it is sampled, remembered across steps."""

from ada_lightning.estimators.beta_history import BetaHistory

__all__ = ["BetaHistory"]
