"""Which response tokens train, and with which weight."""

from ada_lightning.training.token_masks.base import HeadUpdate, TokenMask
from ada_lightning.training.token_masks.capo import CapoMask
from ada_lightning.training.token_masks.jackpot import JackpotMask

__all__ = ["CapoMask", "HeadUpdate", "JackpotMask", "TokenMask"]
