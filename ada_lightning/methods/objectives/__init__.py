"""What is maximised: a function f of each prompt's pass rate p."""

from ada_lightning.methods.objectives.linear import LinearObjective
from ada_lightning.methods.objectives.log import LogObjective
from ada_lightning.methods.objectives.logit import LogitObjective
from ada_lightning.methods.objectives.pass_at_k import PassAtKObjective
from ada_lightning.methods.objectives.power import PowerObjective
from ada_lightning.methods.objectives.series import PowerSeriesObjective

__all__ = [
    "LinearObjective",
    "LogObjective",
    "LogitObjective",
    "PassAtKObjective",
    "PowerObjective",
    "PowerSeriesObjective",
]
