"""Checks across loss, token masks, advantage, gradient norm, parameters and optimiser: what one needs of the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.optim import Adam, AdamW

from ada_lightning.config.setup import Setup
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.gradient_norms import EmbedTokensNorm
from ada_lightning.training.losses import FlowRlLoss
from ada_lightning.training.models.lora import LoraParameters
from ada_lightning.training.token_masks import JackpotMask, TokenMask


def mask_errors(run: Setup) -> Iterator[str]:
    """Try each token mask, then what it needs of loss, parameters and optimiser."""
    for key in (f"token_masks.{name}" for name in run.names("token_masks")):
        if found := run.errors(key):
            yield from found
            continue
        mask = run.part(key)
        if isinstance(mask, TokenMask) and mask.models_update:
            if run.kind("optimizer") is not object and not run.is_a("optimizer", Adam, AdamW):
                yield (
                    f"{key} models a step of Adam on the output embedding, and optimizer = {run.name('optimizer')} has "
                    f"no such moments; use optimizer=adamw or leave {key} out"
                )
            if run.is_a("parameters", LoraParameters):
                yield (
                    f"{key} models the coming step of the output embedding, which parameters=lora freezes; use "
                    "parameters=all"
                )
        cap: Any = getattr(run.part("loss"), "importance_cap", None)
        if isinstance(mask, JackpotMask) and not cap:  # it is what is left to multiply p/q with
            reason = "loss.importance_cap = 0" if cap == 0 else f"{run.name('loss')} has no importance_cap"
            yield (
                f"{key} completes the weight of each token against the engine, and {reason}, so there is none; use "
                f"loss=clipped with loss.importance_cap={mask.cap:g}, or leave {key} out"
            )


def gradient_norm_errors(run: Setup) -> Iterator[str]:
    """A norm over parameters that are frozen is none."""
    if run.is_a("sampler.gradient_norm", EmbedTokensNorm) and run.is_a("parameters", LoraParameters):
        yield (
            "sampler.gradient_norm: EmbedTokensNorm takes gradients of the input embedding, which parameters=lora "
            "freezes; use sampler/gradient_norm=lm_head, whose closed form needs none, or parameters=all"
        )


def target_errors(run: Setup) -> Iterator[str]:
    """FlowRL takes the advantage for a reward; one that carries weights of its own is none."""
    advantage = run.part("advantage")
    is_weighted = isinstance(advantage, ExactAdvantage | StratifiedAdvantage | WeightedLeaveOneOutAdvantage)
    is_weighted = is_weighted or (isinstance(advantage, PoolMeanAdvantage) and bool(advantage.weight_power))
    if is_weighted and run.is_a("loss", FlowRlLoss):
        yield (
            f"advantage: loss=flowrl tilts the reference by the normalised reward, and {type(advantage).__name__} is "
            "weighted by more than that; use advantage=grpo"
        )
