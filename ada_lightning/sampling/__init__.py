"""Who gets more samples, who stops."""

from ada_lightning.sampling.balance import BalanceSampler
from ada_lightning.sampling.coba import CobaSampler
from ada_lightning.sampling.dars import DarsSampler
from ada_lightning.sampling.estimated import EstimatedSampler
from ada_lightning.sampling.giving_up import GiveUpByPosterior, NeverGiveUp
from ada_lightning.sampling.gradient_variance import DrGrpoVariance, RlooVariance
from ada_lightning.sampling.gvm import GvmSampler
from ada_lightning.sampling.knapsack import KnapsackSampler
from ada_lightning.sampling.optpo import OptPoSampler
from ada_lightning.sampling.pilot import PilotSampler
from ada_lightning.sampling.pilot_commit import PilotCommitSampler
from ada_lightning.sampling.positive import PositiveSampler
from ada_lightning.sampling.pruning import PruningSampler
from ada_lightning.sampling.sequential import SequentialSampler
from ada_lightning.sampling.speed import SpeedSampler
from ada_lightning.sampling.spread import SpreadSampler
from ada_lightning.sampling.uniform import UniformSampler
from ada_lightning.sampling.vip import VipSampler
from ada_lightning.sampling.xrpo import XrpoSampler

__all__ = [
    "BalanceSampler",
    "CobaSampler",
    "DarsSampler",
    "DrGrpoVariance",
    "EstimatedSampler",
    "GiveUpByPosterior",
    "GvmSampler",
    "KnapsackSampler",
    "NeverGiveUp",
    "OptPoSampler",
    "PilotCommitSampler",
    "PilotSampler",
    "PositiveSampler",
    "PruningSampler",
    "RlooVariance",
    "SequentialSampler",
    "SpeedSampler",
    "SpreadSampler",
    "UniformSampler",
    "VipSampler",
    "XrpoSampler",
]
