"""Which responses of a pool train, with which weight."""

from ada_lightning.core.moved import lazily
from ada_lightning.methods.selection.all import AllSelection
from ada_lightning.methods.selection.balanced import BalancedSelection
from ada_lightning.methods.selection.bandit import BanditSelection
from ada_lightning.methods.selection.largest_advantage import LargestAdvantageBatchSelection, LargestAdvantageSelection
from ada_lightning.methods.selection.max_variance import MaxVarianceSelection
from ada_lightning.methods.selection.positives import PositivesSelection
from ada_lightning.methods.selection.rarer_class import RarerClassSelection
from ada_lightning.methods.selection.reward_strata import (
    QuantileSelection,
    RewardStrataSelection,
    StratifiedSelection,
)
from ada_lightning.methods.selection.seen import SeenSelection
from ada_lightning.methods.selection.thinned import ThinnedSelection

MOVED = {
    "PruningSelection": "ada_lightning.methods.published.pruning",
    "ResolvedSelection": "ada_lightning.methods.published.pilot_commit",
}
"""Names under which stored configurations know classes that moved."""
__getattr__ = lazily(__name__, MOVED)

__all__ = [
    "AllSelection",
    "BalancedSelection",
    "BanditSelection",
    "LargestAdvantageBatchSelection",
    "LargestAdvantageSelection",
    "MaxVarianceSelection",
    "PositivesSelection",
    "QuantileSelection",
    "RarerClassSelection",
    "RewardStrataSelection",
    "SeenSelection",
    "StratifiedSelection",
    "ThinnedSelection",
]
