"""What is maximised: a function f of each prompt's pass rate p."""

from ada_lightning.methods.objectives.logit import LogitObjective
from ada_lightning.methods.objectives.power_series import (
    LinearObjective,
    LogObjective,
    PassAtKObjective,
    PowerObjective,
)

__all__ = [
    "LinearObjective",
    "LogObjective",
    "LogitObjective",
    "PassAtKObjective",
    "PowerObjective",
]
