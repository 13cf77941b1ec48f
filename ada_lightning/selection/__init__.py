"""Which responses of a pool train, with which weight."""

from ada_lightning.selection.all import AllSelection
from ada_lightning.selection.balanced import BalancedSelection
from ada_lightning.selection.positives import PositivesSelection
from ada_lightning.selection.quantile import QuantileSelection
from ada_lightning.selection.rarer_class import RarerClassSelection
from ada_lightning.selection.reward_strata import RewardStrataSelection
from ada_lightning.selection.stratified import StratifiedSelection

__all__ = [
    "AllSelection",
    "BalancedSelection",
    "PositivesSelection",
    "QuantileSelection",
    "RarerClassSelection",
    "RewardStrataSelection",
    "StratifiedSelection",
]
