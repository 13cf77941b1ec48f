"""Checks across loss, token masks, advantage, gradient norm, parameters and optimiser: what one needs of the others."""

from __future__ import annotations

from collections.abc import Iterator

from torch.optim import Adam, AdamW

from ada_lightning.config.view import ConfigView
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    PoolMeanAdvantage,
    StratifiedAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.gradient_norms import EmbedTokensNorm
from ada_lightning.training.losses import CispoLoss, ClippedPolicyLoss, FlowRlLoss, PolicyLoss, TokenTruncation
from ada_lightning.training.models.lora import LoraParameters
from ada_lightning.training.token_masks import JackpotMask, TokenMask


def mask_errors(run: ConfigView) -> Iterator[str]:
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
        loss = run.part("loss")
        if isinstance(mask, JackpotMask) and isinstance(loss, PolicyLoss) and (reason := _without_token_weight(loss)):
            yield (
                f"{key} completes the weight of each token against the engine, and {reason}; use loss=clipped "
                f"loss/importance=token_truncation loss.importance_cap={mask.cap:g}, or leave {key} out"
            )


def _without_token_weight(loss: PolicyLoss) -> str:
    """Say why a loss does not weigh every token by its own p/q, p the policy as it is and q the engine's."""
    if not isinstance(loss, ClippedPolicyLoss | CispoLoss):
        return f"{type(loss).__name__} does not weigh every token by its own ratio"
    if not loss.importance_cap:
        return "loss.importance_cap = 0, so there is none"
    if not isinstance(loss.importance, TokenTruncation):
        return f"loss.importance = {type(loss.importance).__name__} is another weight"
    return ""


def gradient_norm_errors(run: ConfigView) -> Iterator[str]:
    """A norm over parameters that are frozen is none."""
    if run.is_a("sampler.gradient_norm", EmbedTokensNorm) and run.is_a("parameters", LoraParameters):
        yield (
            "sampler.gradient_norm: EmbedTokensNorm takes gradients of the input embedding, which parameters=lora "
            "freezes; use sampler/gradient_norm=lm_head, whose closed form needs none, or parameters=all"
        )


def target_errors(run: ConfigView) -> Iterator[str]:
    """FlowRL takes the advantage for a reward; one that carries weights of its own is none."""
    advantage = run.part("advantage")
    is_weighted = isinstance(advantage, ExactAdvantage | StratifiedAdvantage | WeightedLeaveOneOutAdvantage)
    is_weighted = is_weighted or (isinstance(advantage, PoolMeanAdvantage) and bool(advantage.weight_power))
    if is_weighted and run.is_a("loss", FlowRlLoss):
        yield (
            f"advantage: loss=flowrl tilts the reference by the normalised reward, and {type(advantage).__name__} is "
            "weighted by more than that; use advantage=grpo"
        )
