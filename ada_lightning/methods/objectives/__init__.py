"""What is maximised: a function f of each prompt's pass rate p."""

from ada_lightning.methods.objectives.functions import (
    LinearObjective,
    LogitObjective,
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
