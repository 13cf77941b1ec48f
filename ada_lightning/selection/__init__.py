"""Which responses of a pool train, with which weight."""

from ada_lightning.selection.all import AllSelection
from ada_lightning.selection.balanced import BalancedSelection
from ada_lightning.selection.bandit import BanditSelection
from ada_lightning.selection.largest_advantage import LargestAdvantageSelection
from ada_lightning.selection.largest_advantage_batch import LargestAdvantageBatchSelection
from ada_lightning.selection.max_variance import MaxVarianceSelection
from ada_lightning.selection.positives import PositivesSelection
from ada_lightning.selection.pruning import FixedFractionPruning, PruningSelection
from ada_lightning.selection.quantile import QuantileSelection
from ada_lightning.selection.rarer_class import RarerClassSelection
from ada_lightning.selection.resolved import ResolvedSelection
from ada_lightning.selection.reward_strata import RewardStrataSelection
from ada_lightning.selection.stratified import StratifiedSelection
from ada_lightning.selection.thinned import ThinnedSelection

__all__ = [
    "AllSelection",
    "BalancedSelection",
    "BanditSelection",
    "FixedFractionPruning",
    "LargestAdvantageBatchSelection",
    "LargestAdvantageSelection",
    "MaxVarianceSelection",
    "PositivesSelection",
    "PruningSelection",
    "QuantileSelection",
    "RarerClassSelection",
    "ResolvedSelection",
    "RewardStrataSelection",
    "StratifiedSelection",
    "ThinnedSelection",
]
