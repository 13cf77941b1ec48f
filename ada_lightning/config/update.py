"""Checks what goes together in the update: cut responses, streamed gradients, older policies, token masks, LoRA."""

from __future__ import annotations

from collections.abc import Iterator

from torch.optim import Adam, AdamW

from ada_lightning.analysis.statement.staleness import has_trust_region
from ada_lightning.config.view import ConfigView
from ada_lightning.core.protocols import Advantage, Curriculum, FollowUp, Refill, Sampler, Trait
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    HistoryBaselineAdvantage,
    PoolMeanAdvantage,
    RoundedHistoryAdvantage,
    StratifiedAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.gradient_norms import EmbedTokensNorm
from ada_lightning.methods.refill import NoRefill
from ada_lightning.methods.selection import AllSelection, ThinnedSelection
from ada_lightning.rollout.engines.weight_transfer import Reload
from ada_lightning.training.losses import CispoLoss, ClippedPolicyLoss, FlowRlLoss, PolicyLoss, TokenTruncation
from ada_lightning.training.models.lora import LoraParameters
from ada_lightning.training.token_masks import JackpotMask, TokenMask


def cutting_errors(run: ConfigView) -> Iterator[str]:
    """Yield one message per problem; none without such a sampler."""
    if run.has("sampler", Trait.CUTS_RESPONSES):
        own = f"sampler: {run.name('sampler')}"
        yield from _method_errors(run, own)
        yield from _update_errors(run, own)
        yield from _length_errors(run, own)


def _method_errors(run: ConfigView, own: str) -> Iterator[str]:
    """What looks at a prompt's group sees a part of it."""
    if not run.is_a("advantage", HistoryBaselineAdvantage, RoundedHistoryAdvantage):
        yield (
            f"{own} leaves long responses out by chance, so the rest is no fair sample of the pass rate, but "
            f"advantage = {run.name('advantage')} takes it for one; use advantage=history_baseline"
        )
    if not run.is_a("selection", AllSelection, ThinnedSelection):
        yield f"{own} weighs the responses that are left, but {run.name('selection')} counts them; use selection=all"
    if not run.is_a("refill", NoRefill):
        yield f"{own} leaves groups with fewer responses, but {run.name('refill')} replaces some; use refill=none"
    curriculum = run.kind("curriculum")
    if issubclass(curriculum, Curriculum) and curriculum.observe is not Curriculum.observe:
        yield (
            f"{own} leaves only part of a group as evidence, but curriculum: {run.name('curriculum')} judges prompts "
            "by whole groups; use curriculum=learnability, or another that uses the estimator"
        )


def _update_errors(run: ConfigView, own: str) -> Iterator[str]:
    """The weights are those of advantages, in a sum that is linear in them."""
    from ada_lightning.training.losses import ConstantReduction  # loads torch
    from ada_lightning.training.token_masks import CapoMask

    if not run.is_a("loss.reduction", ConstantReduction):
        yield (
            f"{own} makes up for what it cuts in the others' weights, but loss.reduction = "
            f"{run.name('loss.reduction')} divides by what is left; use loss/reduction=constant"
        )
    for name in ("kl_coef", "entropy_coef"):
        if value := run.number(f"loss.{name}"):
            yield f"{own}: loss.{name} = {value} would see only what is left; use loss.{name}=0"
    if getattr(run.kind("loss"), "needs_groups_without_signal", None) is True:
        yield f"{own} weighs advantages, but loss = {run.name('loss')} is not linear in them; use loss=clipped"
    for name in run.names("token_masks"):
        if run.is_a(f"token_masks.{name}", CapoMask):
            yield (
                f"{own} weighs advantages, but token_masks.{name} leaves out tokens where those are large; leave the "
                "mask out, or use another sampler"
            )


def _length_errors(run: ConfigView, own: str) -> Iterator[str]:
    at, limit = run.number("sampler.num_tokens"), run.number("rollout.sampling.max_new_tokens")
    if at is not None and limit is not None and at >= limit:
        yield (
            f"sampler.num_tokens = {at:g} cuts nothing: rollout.sampling.max_new_tokens = {limit:g} ends every "
            f"response by then; use sampler.num_tokens={limit / 2:.0f} or another sampler"
        )
    if run.kind("environment") is not object:
        yield f"{own} cuts single responses, but an episode has several turns; use environment=none or another sampler"


_STREAMED = "rollout.stream_gradients"


def streaming_errors(run: ConfigView) -> Iterator[str]:
    """Yield one message for each part that needs the whole rollout first. Where the engine lives, the service says."""
    if run.value(_STREAMED) is True:
        for reason, way_out in (*_of_the_method(run), *_of_the_update(run)):
            yield f"{_STREAMED}: {reason}; use {_STREAMED}=false or {way_out}"


def _of_the_method(run: ConfigView) -> Iterator[tuple[str, str]]:
    """Yield what is wrong and the way out."""
    advantage, sampler, refill = run.kind("advantage"), run.kind("sampler"), run.part("refill")
    if issubclass(advantage, Advantage):
        if advantage.assign is not Advantage.assign:
            yield f"{advantage.__name__} compares the groups of a whole rollout", "advantage=exact, or grpo"
        elif advantage.connect is not Advantage.connect:
            yield (
                f"{advantage.__name__} asks the policy about responses, which would happen twice",
                "another advantage",
            )
    if run.has("selection", Trait.COMPARES_POOLS):
        yield f"{run.name('selection')} compares all pools of a step", "selection=balanced, or another"
    if isinstance(refill, Refill) and refill.is_on:
        yield "with refill it is known only at the end of a step which groups train", "refill=none"
    if isinstance(hints := run.part("hints"), FollowUp) and hints.is_on:
        yield "with hints it is known only at the end of a step how many groups train", "hints=none"
    if issubclass(sampler, Sampler) and sampler.connect is not Sampler.connect:
        yield f"{sampler.__name__} reads the policy while it computes gradients", "another sampler"


def _of_the_update(run: ConfigView) -> Iterator[tuple[str, str]]:
    """Yield what is wrong and the way out."""
    updates = {name: run.number(f"data.{name}") for name in ("num_minibatches", "epochs_per_rollout")}
    if any(number not in (None, 1) for number in updates.values()):
        chosen = " ".join(f"data.{name}={number}" for name, number in updates.items())
        yield (
            f"prompts are computed in the order in which they end, but {chosen} has several updates with a rollout, of "
            "chosen prompts each",
            "data.num_minibatches=1 data.epochs_per_rollout=1",
        )
    loss = run.kind("loss")
    if issubclass(loss, PolicyLoss) and not loss.is_scaled_by_reduction:
        yield (
            f"{loss.__name__} does not declare that its gradient can be divided afterwards (is_scaled_by_reduction)",
            "another loss",
        )
    for key in (f"token_masks.{name}" for name in run.names("token_masks")):
        mask = run.kind(key)
        if issubclass(mask, TokenMask) and mask.begin_update is not TokenMask.begin_update:
            yield f"{key} needs the denominators of an update, which are known only at its end", f"leave {key} out"
    if level := run.number("rollout.engine.sleep_level"):
        yield (
            f"the engine samples while gradients are computed, and rollout.engine.sleep_level = {level} is for memory "
            "that they use in turns",
            "rollout.engine.sleep_level=0",
        )
    processes = (run.number("trainer.devices") or 1) * (run.number("trainer.num_nodes") or 1)
    if processes > 1:
        yield (
            f"one training process computes what is complete, but trainer.devices x trainer.num_nodes = {processes}",
            "trainer.devices=1 trainer.num_nodes=1",
        )


_STALENESS = "rollout.max_staleness"


def staleness_errors(run: ConfigView) -> Iterator[str]:
    """Yield one message per problem; none without a lag. Parts that cannot be made are reported by themselves."""
    k = run.number(_STALENESS)
    if k is None or k < 1:
        return
    own = f"{_STALENESS} = {k}"
    yield from _place_errors(run, own)
    refill, sampler = run.part("refill"), run.kind("sampler")
    if isinstance(refill, Refill) and refill.is_on:
        yield (
            f"{own}: with refill, a step decides where the prompts of the next one begin, but that one is "
            f"prepared before it is sampled; use refill=none or {_STALENESS}=0"
        )
    if issubclass(sampler, Sampler) and sampler.connect is not Sampler.connect:
        yield (
            f"{own}: {sampler.__name__} reads the policy between its stages, but it would read another policy than the "
            f"one that samples; use another sampler or {_STALENESS}=0"
        )
    loss, updates = run.part("loss"), [run.number(f"data.{name}") for name in ("num_minibatches", "epochs_per_rollout")]
    num_updates = int(updates[0] or 1) * int(updates[1] or 1)
    if isinstance(loss, PolicyLoss) and not has_trust_region(loss, num_updates=num_updates):
        yield (
            f"{own}: nothing bounds how far the policy moves from the one that sampled. With one update per rollout "
            f"every ratio of {type(loss).__name__} is 1, and a cap alone bounds only one side. Use one of: "
            "loss.anchor=behaviour loss.importance_cap=0 with a loss that clips; loss/importance=sequence_rejection "
            "loss.importance.floor=0.5; loss=divergence_tv"
        )


def _place_errors(run: ConfigView, own: str) -> Iterator[str]:
    """One process trains, holds the older policies, and gives an engine the one whose turn it is."""
    transfer = run.kind("rollout.engine.weight_transfer")
    if transfer is not object and not issubclass(transfer, Reload):
        yield (
            f"{own} keeps older weights in memory of the CPU, but rollout.engine.weight_transfer: {transfer.__name__} "
            f"reads those of the trainer's GPU; use rollout/weight_transfer=reload, or {_STALENESS}=0"
        )
    if run.value("rollout.seed_requests") is False:
        yield (
            f"{own}: a step that is drawn again after a stop must be the same, which needs a seed for every response; "
            "use rollout.seed_requests=true"
        )
    processes = (run.number("trainer.devices") or 1) * (run.number("trainer.num_nodes") or 1)
    if processes > 1:
        yield (
            f"{own} keeps older weights in one training process, but trainer.devices x trainer.num_nodes = "
            f"{processes}; use trainer.devices=1 trainer.num_nodes=1, or {_STALENESS}=0"
        )
    if level := run.number("rollout.engine.sleep_level"):
        yield (
            f"{own} loads an older policy at every step, but rollout.engine.sleep_level = {level} gives the memory of "
            f"weights back in between; use rollout.engine.sleep_level=0"
        )


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
                    f"{key} models a step of Adam on the output embedding, but optimizer = {run.name('optimizer')} has "
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
                f"{key} corrects the weight of each token, but {reason}; use loss=clipped "
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
            f"advantage: loss=flowrl tilts the reference by the normalised reward, but {type(advantage).__name__} is "
            "weighted by more than that; use advantage=grpo"
        )
