"""Who gets more samples, who stops."""

from ada_lightning.sampling.balance import BalanceSampler
from ada_lightning.sampling.coba import CobaSampler
from ada_lightning.sampling.estimated import EstimatedSampler
from ada_lightning.sampling.giving_up import GiveUpByPosterior, NeverGiveUp
from ada_lightning.sampling.gradient_variance import DrGrpoVariance, RlooVariance
from ada_lightning.sampling.knapsack import KnapsackSampler
from ada_lightning.sampling.positive import PositiveSampler
from ada_lightning.sampling.sequential import SequentialSampler
from ada_lightning.sampling.spread import SpreadSampler
from ada_lightning.sampling.uniform import UniformSampler
from ada_lightning.sampling.vip import VipSampler

__all__ = [
    "BalanceSampler",
    "CobaSampler",
    "DrGrpoVariance",
    "EstimatedSampler",
    "GiveUpByPosterior",
    "KnapsackSampler",
    "NeverGiveUp",
    "PositiveSampler",
    "RlooVariance",
    "SequentialSampler",
    "SpreadSampler",
    "UniformSampler",
    "VipSampler",
]
