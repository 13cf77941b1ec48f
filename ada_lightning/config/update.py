"""Checks across loss, token masks, advantage and optimiser: what one of them needs of the others.

Everything that needs torch is imported where it is used: the command line is checked before torch is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from ada_lightning.config.setup import Setup

if TYPE_CHECKING:
    from ada_lightning.training.token_masks import JackpotMask


def update_errors(run: Setup) -> Iterator[str]:
    """Yield one message per problem. Parts that cannot be made are left alone: they are reported by themselves."""
    yield from mask_errors(run)
    yield from target_errors(run)


def mask_errors(run: Setup) -> Iterator[str]:
    """Try each token mask, then what it needs of loss and optimiser."""
    from ada_lightning.training.token_masks import JackpotMask, TokenMask

    node = run.value("token_masks")
    for name in map(str, node) if isinstance(node, DictConfig) else ():
        key = f"token_masks.{name}"
        if found := run.errors(key):
            yield from found
            continue
        mask = run.part(key)
        if isinstance(mask, TokenMask) and mask.models_update:
            yield from _adam_errors(run, key)
            yield from _frozen_errors(run, key)
        if isinstance(mask, JackpotMask):
            yield from _ratio_errors(run, key, mask)


def _frozen_errors(run: Setup, key: str) -> Iterator[str]:
    """A mask that models the step of the output embedding needs one that trains."""
    from ada_lightning.training.models.lora import LoraParameters

    if issubclass(run.kind("parameters"), LoraParameters):
        yield f"{key} models the coming step of the output embedding, which parameters=lora freezes; use parameters=all"


def target_errors(run: Setup) -> Iterator[str]:
    """FlowRL takes the advantage for a reward; one that carries weights of its own is none."""
    from ada_lightning.methods.advantages import (
        ExactAdvantage,
        PoolMeanAdvantage,
        StratifiedAdvantage,
        WeightedLeaveOneOutAdvantage,
    )
    from ada_lightning.training.losses import FlowRlLoss

    if not issubclass(run.kind("loss"), FlowRlLoss):
        return
    advantage = run.part("advantage")
    is_weighted = isinstance(advantage, ExactAdvantage | StratifiedAdvantage | WeightedLeaveOneOutAdvantage)
    if is_weighted or (isinstance(advantage, PoolMeanAdvantage) and advantage.weight_power):
        yield (
            f"advantage: loss=flowrl tilts the reference by the normalised reward, and {type(advantage).__name__} is "
            "weighted by more than that; use advantage=grpo"
        )


def _adam_errors(run: Setup, key: str) -> Iterator[str]:
    from torch.optim import Adam, AdamW

    optimizer = run.kind("optimizer")
    if optimizer is not object and not issubclass(optimizer, Adam | AdamW):
        yield (
            f"{key} models a step of Adam on the output embedding, and optimizer = {optimizer.__name__} has no such "
            f"moments; use optimizer=adamw or leave {key} out"
        )


def _ratio_errors(run: Setup, key: str, mask: JackpotMask) -> Iterator[str]:
    """The mask is what is left to multiply p/q with, so the loss must weigh tokens by p/q."""
    cap: Any = getattr(run.part("loss"), "importance_cap", None)
    if cap is None or cap == 0:
        reason = "loss.importance_cap = 0" if cap == 0 else f"{run.kind('loss').__name__} has no importance_cap"
        yield (
            f"{key} completes the weight of each token against the engine, and {reason}, so there is none; use "
            f"loss=clipped with loss.importance_cap={mask.cap:g}, or leave {key} out"
        )
