"""Which estimate of a pool's pass rate goes into a baseline or a weight."""

from ada_lightning.methods.pass_rates.first_round import FirstRoundRate
from ada_lightning.methods.pass_rates.leave_one_out import LeaveOneOutRate
from ada_lightning.methods.pass_rates.path_counting import PathCountingRate
from ada_lightning.methods.pass_rates.pool_mean import PoolMeanRate
from ada_lightning.methods.pass_rates.posterior import PosteriorRate

__all__ = ["FirstRoundRate", "LeaveOneOutRate", "PathCountingRate", "PoolMeanRate", "PosteriorRate"]
