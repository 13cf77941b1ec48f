"""What is maximised: a function f of each prompt's pass rate p."""

from ada_lightning.objectives.linear import LinearObjective
from ada_lightning.objectives.log import LogObjective
from ada_lightning.objectives.logit import LogitObjective
from ada_lightning.objectives.pass_at_k import PassAtKObjective
from ada_lightning.objectives.power import PowerObjective
from ada_lightning.objectives.series import PowerSeriesObjective

__all__ = [
    "LinearObjective",
    "LogObjective",
    "LogitObjective",
    "PassAtKObjective",
    "PowerObjective",
    "PowerSeriesObjective",
]
