"""What does not go with gradients that are computed while the rollout of their step goes on."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.config.setup import Setup
from ada_lightning.core.protocols import Advantage, Refill, Sampler, Trait
from ada_lightning.training.token_masks import TokenMask

_KEY = "rollout.stream_gradients"


def streaming_errors(run: Setup) -> Iterator[str]:
    """Yield one message for each part that needs the whole rollout first. Where the engine lives, the service says."""
    if run.value(_KEY) is not True:
        return
    off = f"use {_KEY}=false or"
    updates = {name: run.number(f"data.{name}") for name in ("num_minibatches", "epochs_per_rollout")}
    if any(number not in (None, 1) for number in updates.values()):
        chosen = " ".join(f"data.{name}={number}" for name, number in updates.items())
        yield (
            f"{_KEY}: prompts are computed in the order in which they end, and {chosen} has several updates with a "
            f"rollout, of chosen prompts each; {off} data.num_minibatches=1 data.epochs_per_rollout=1"
        )
    advantage, sampler, refill = run.kind("advantage"), run.kind("sampler"), run.part("refill")
    if issubclass(advantage, Advantage) and advantage.assign is not Advantage.assign:
        yield f"{_KEY}: {advantage.__name__} compares the groups of a whole rollout; {off} advantage=exact, or grpo"
    if run.has("selection", Trait.COMPARES_POOLS):
        yield f"{_KEY}: {run.name('selection')} compares all pools of a step; {off} selection=balanced, or another"
    if isinstance(refill, Refill) and refill.is_on:
        yield f"{_KEY}: which groups of a step that is filled up train is known at its end; {off} refill=none"
    if issubclass(sampler, Sampler) and sampler.connect is not Sampler.connect:
        yield f"{_KEY}: {sampler.__name__} reads the policy while it computes gradients; {off} another sampler"
    for key in (f"token_masks.{name}" for name in run.names("token_masks")):
        mask = run.part(key)
        if isinstance(mask, TokenMask) and mask.models_update:
            yield f"{_KEY}: {key} models an update whose denominators are known at its end; {off} leave {key} out"
    processes = (run.number("trainer.devices") or 1) * (run.number("trainer.num_nodes") or 1)
    if processes > 1:
        yield (
            f"{_KEY}: one training process computes what is complete, and trainer.devices x trainer.num_nodes = "
            f"{processes}; {off} trainer.devices=1 trainer.num_nodes=1"
        )
