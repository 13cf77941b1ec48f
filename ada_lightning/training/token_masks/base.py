"""The base class of token masks, and what they know of an update before its gradient."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.optim import Optimizer

from ada_lightning.core.options import Option, add
from ada_lightning.training.batch import BatchCounts, Microbatch
from ada_lightning.training.losses.terms import LossReduction, TokenTerms


@dataclass(frozen=True, slots=True)
class HeadUpdate:
    """What is known of an update of the output embedding before its gradient is."""

    head: nn.Linear
    """Hidden states to logits."""
    optimizer: Optimizer
    """With its moments, if it has any."""
    temperature: float
    """Divides the logits."""
    reduction: LossReduction
    """The loss's."""
    counts: BatchCounts
    """Global denominators of the update."""


class TokenMask:
    """Which tokens train. Several may be listed; their masks multiply."""

    name: str
    """``train/<name>_kept`` is the share of tokens to which it gives any weight."""
    needs_hidden: bool = False
    """Whether it reads ``hidden_TH``."""
    models_update: bool = False
    """Whether it looks at what the coming update will do to the output embedding."""

    def __call__(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> Tensor:
        """Return a weight per token, without gradient: 1 trains, 0 leaves out. Shape ``(K,)``, float32."""
        raise NotImplementedError

    def caveat(self) -> str:
        """Say in one line how it turns the update from the gradient of its objective."""
        raise NotImplementedError

    def begin_update(self, update: HeadUpdate) -> None:
        """Take what is known; called before the first microbatch of every update, on every rank."""


add(Option("token_masks", "none", {}, text="Every response token trains."))
