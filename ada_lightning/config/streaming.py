"""What does not go with gradients that are computed while the rollout of their step goes on."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.config.view import ConfigView
from ada_lightning.core.protocols import Advantage, Refill, Sampler, Trait
from ada_lightning.training.losses import PolicyLoss
from ada_lightning.training.token_masks import TokenMask

_KEY = "rollout.stream_gradients"


def streaming_errors(run: ConfigView) -> Iterator[str]:
    """Yield one message for each part that needs the whole rollout first. Where the engine lives, the service says."""
    if run.value(_KEY) is True:
        for reason, way_out in (*_of_the_method(run), *_of_the_update(run)):
            yield f"{_KEY}: {reason}; use {_KEY}=false or {way_out}"


def _of_the_method(run: ConfigView) -> Iterator[tuple[str, str]]:
    """Yield what is wrong and the way out."""
    advantage, sampler, refill = run.kind("advantage"), run.kind("sampler"), run.part("refill")
    if issubclass(advantage, Advantage):
        if advantage.assign is not Advantage.assign:
            yield f"{advantage.__name__} compares the groups of a whole rollout", "advantage=exact, or grpo"
        elif advantage.connect is not Advantage.connect:
            yield (
                f"{advantage.__name__} asks the policy about responses, which would be done twice",
                "another advantage",
            )
    if run.has("selection", Trait.COMPARES_POOLS):
        yield f"{run.name('selection')} compares all pools of a step", "selection=balanced, or another"
    if isinstance(refill, Refill) and refill.is_on:
        yield "which groups of a step that is filled up train is known at its end", "refill=none"
    if issubclass(sampler, Sampler) and sampler.connect is not Sampler.connect:
        yield f"{sampler.__name__} reads the policy while it computes gradients", "another sampler"


def _of_the_update(run: ConfigView) -> Iterator[tuple[str, str]]:
    """Yield what is wrong and the way out."""
    updates = {name: run.number(f"data.{name}") for name in ("num_minibatches", "epochs_per_rollout")}
    if any(number not in (None, 1) for number in updates.values()):
        chosen = " ".join(f"data.{name}={number}" for name, number in updates.items())
        yield (
            f"prompts are computed in the order in which they end, and {chosen} has several updates with a rollout, of "
            "chosen prompts each",
            "data.num_minibatches=1 data.epochs_per_rollout=1",
        )
    loss = run.kind("loss")
    if issubclass(loss, PolicyLoss) and not loss.is_scaled_by_reduction:
        yield f"{loss.__name__} does not say that it may be divided afterwards (is_scaled_by_reduction)", "another loss"
    for key in (f"token_masks.{name}" for name in run.names("token_masks")):
        mask = run.kind(key)
        if issubclass(mask, TokenMask) and mask.begin_update is not TokenMask.begin_update:
            yield f"{key} looks at an update whose denominators are known at its end", f"leave {key} out"
    if level := run.number("rollout.engine.sleep_level"):
        yield (
            f"the engine samples while gradients are computed, and rollout.engine.sleep_level = {level} is for memory "
            "that they use in turns",
            "rollout.engine.sleep_level=0",
        )
    processes = (run.number("trainer.devices") or 1) * (run.number("trainer.num_nodes") or 1)
    if processes > 1:
        yield (
            f"one training process computes what is complete, and trainer.devices x trainer.num_nodes = {processes}",
            "trainer.devices=1 trainer.num_nodes=1",
        )
