"""Who gets more samples, who stops."""

from ada_lightning.sampling.balance import BalanceSampler
from ada_lightning.sampling.estimated import EstimatedSampler
from ada_lightning.sampling.giving_up import GiveUpByPosterior, NeverGiveUp
from ada_lightning.sampling.positive import PositiveSampler
from ada_lightning.sampling.pruning import PruningSampler
from ada_lightning.sampling.sequential import SequentialSampler
from ada_lightning.sampling.spread import SpreadSampler
from ada_lightning.sampling.uniform import UniformSampler

__all__ = [
    "BalanceSampler",
    "EstimatedSampler",
    "GiveUpByPosterior",
    "NeverGiveUp",
    "PositiveSampler",
    "PruningSampler",
    "SequentialSampler",
    "SpreadSampler",
    "UniformSampler",
]
