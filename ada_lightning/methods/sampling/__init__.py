"""Who gets more samples, who stops; samplers of single papers are in ``methods/published``."""

from ada_lightning.core.moved import lazily
from ada_lightning.methods.sampling.cut import CutSampler
from ada_lightning.methods.sampling.giving_up import GiveUpByPosterior, NeverGiveUp
from ada_lightning.methods.sampling.pilot import PilotSampler
from ada_lightning.methods.sampling.sequential import BalanceSampler, PositiveSampler, SequentialSampler
from ada_lightning.methods.sampling.spread import SpreadSampler
from ada_lightning.methods.sampling.uniform import FirstVisitSampler, UniformSampler

MOVED = {
    "CGrpoSampler": "ada_lightning.methods.published.cgrpo",
    "CharacterShares": "ada_lightning.methods.published.inverse_rl",
    "CobaSampler": "ada_lightning.methods.published.coba",
    "DarsSampler": "ada_lightning.methods.published.dars",
    "DrGrpoVariance": "ada_lightning.methods.published.vip",
    "EstimatedSampler": "ada_lightning.methods.published.reinforce_ada",
    "GvmSampler": "ada_lightning.methods.published.gvm",
    "InverseRlSampler": "ada_lightning.methods.published.inverse_rl",
    "KnapsackSampler": "ada_lightning.methods.published.knapsack",
    "KnownBaselineVariance": "ada_lightning.methods.published.token_division",
    "OptPoSampler": "ada_lightning.methods.published.optpo",
    "PilotCommitSampler": "ada_lightning.methods.published.pilot_commit",
    "PruningSampler": "ada_lightning.methods.published.pruning",
    "RlooVariance": "ada_lightning.methods.published.vip",
    "SpeedSampler": "ada_lightning.methods.published.speed",
    "TextFeatures": "ada_lightning.methods.published.inverse_rl",
    "VipSampler": "ada_lightning.methods.published.vip",
    "XrpoSampler": "ada_lightning.methods.published.xrpo",
}
"""Classes that stored configurations look for here, and where they stand now."""
__getattr__ = lazily(__name__, MOVED)

__all__ = [
    "BalanceSampler",
    "CutSampler",
    "FirstVisitSampler",
    "GiveUpByPosterior",
    "NeverGiveUp",
    "PilotSampler",
    "PositiveSampler",
    "SequentialSampler",
    "SpreadSampler",
    "UniformSampler",
]
