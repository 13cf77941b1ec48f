"""Which responses of a pool train, with which weight."""

from ada_lightning.core.moved import lazily
from ada_lightning.methods.selection.by_class import (
    AllSelection,
    BalancedSelection,
    RarerClassSelection,
    SeenSelection,
)
from ada_lightning.methods.selection.reward_strata import (
    QuantileSelection,
    RewardStrataSelection,
    StratifiedSelection,
)
from ada_lightning.methods.selection.thinned import ThinnedSelection

__all__ = [
    "AllSelection",
    "BalancedSelection",
    "QuantileSelection",
    "RarerClassSelection",
    "RewardStrataSelection",
    "SeenSelection",
    "StratifiedSelection",
    "ThinnedSelection",
]

MOVED = {
    "BanditSelection": "ada_lightning.methods.published.rollout_bandits",
    "LargestAdvantageBatchSelection": "ada_lightning.methods.published.cppo",
    "LargestAdvantageSelection": "ada_lightning.methods.published.cppo",
    "MaxVarianceSelection": "ada_lightning.methods.published.pods",
    "PositivesSelection": "ada_lightning.methods.published.raft",
    "PruningSelection": "ada_lightning.methods.published.pruning",
    "ResolvedSelection": "ada_lightning.methods.published.pilot_commit",
}
"""Classes that stored configurations look for here, and where they stand now."""
__getattr__ = lazily(__name__, MOVED)
