"""Which responses of a pool train, with which weight."""

from ada_lightning.selection.all import AllSelection
from ada_lightning.selection.balanced import BalancedSelection

__all__ = ["AllSelection", "BalancedSelection"]
