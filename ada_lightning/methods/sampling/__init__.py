"""Who gets more samples, who stops."""

from ada_lightning.methods.sampling.cgrpo import CGrpoSampler
from ada_lightning.methods.sampling.coba import CobaSampler
from ada_lightning.methods.sampling.cut import CutSampler
from ada_lightning.methods.sampling.dars import DarsSampler
from ada_lightning.methods.sampling.estimated import EstimatedSampler
from ada_lightning.methods.sampling.first_visit import FirstVisitSampler
from ada_lightning.methods.sampling.giving_up import GiveUpByPosterior, NeverGiveUp
from ada_lightning.methods.sampling.gradient_variance import DrGrpoVariance, KnownBaselineVariance, RlooVariance
from ada_lightning.methods.sampling.gvm import GvmSampler
from ada_lightning.methods.sampling.inverse_rl import InverseRlSampler
from ada_lightning.methods.sampling.knapsack import KnapsackSampler
from ada_lightning.methods.sampling.optpo import OptPoSampler
from ada_lightning.methods.sampling.pilot import PilotSampler
from ada_lightning.methods.sampling.pilot_commit import PilotCommitSampler
from ada_lightning.methods.sampling.pruning import PruningSampler
from ada_lightning.methods.sampling.sequential import BalanceSampler, PositiveSampler, SequentialSampler
from ada_lightning.methods.sampling.speed import SpeedSampler
from ada_lightning.methods.sampling.spread import SpreadSampler
from ada_lightning.methods.sampling.text_features import CharacterShares, TextFeatures
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.sampling.vip import VipSampler
from ada_lightning.methods.sampling.xrpo import XrpoSampler

__all__ = [
    "BalanceSampler",
    "CGrpoSampler",
    "CharacterShares",
    "CobaSampler",
    "CutSampler",
    "DarsSampler",
    "DrGrpoVariance",
    "EstimatedSampler",
    "FirstVisitSampler",
    "GiveUpByPosterior",
    "GvmSampler",
    "InverseRlSampler",
    "KnapsackSampler",
    "KnownBaselineVariance",
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
    "TextFeatures",
    "UniformSampler",
    "VipSampler",
    "XrpoSampler",
]
