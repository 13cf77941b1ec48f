"""What turns an update away from its objective, or changes whose pass rate p is."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ada_lightning.core.protocols import Curriculum, Refill, Sampler, Selection, Trait
from ada_lightning.training.losses import ConstantReduction, LossReduction, PolicyLoss, PromptMeanReduction


def reduction_lines(reduction: LossReduction) -> Iterator[str]:
    """Only the constant reduction leaves an expected update as it is."""
    if line := reduction.bend():
        yield line


def reuse_lines(num_minibatches: int, epochs_per_rollout: int, loss: PolicyLoss) -> Iterator[str]:
    """Updates with responses of an earlier policy."""
    keys = (("data.num_minibatches", num_minibatches), ("data.epochs_per_rollout", epochs_per_rollout))
    if named := " and ".join(f"{key} = {value}" for key, value in keys if value > 1):
        yield f"{named}: only the first update of a step is on-policy; {loss.reuse_bend()}"


def label_lines(sampler: Sampler) -> Iterator[str]:
    """Rewards that are not the graders'."""
    if Trait.GIVES_REWARDS in sampler.traits:
        yield (
            f"{type(sampler).__name__} gives the rewards itself: p is the rate of its labels, whatever a reference says"
        )


def prompt_lines(curriculum: Curriculum | None) -> Iterator[str]:
    """Prompts that come more often than others."""
    if curriculum is not None and (line := curriculum.bend()):
        yield line


def refill_lines(refill: Refill | None) -> Iterator[str]:
    """Groups that are replaced."""
    if refill is not None and (line := refill.bend()):
        yield line
    if refill is not None and refill.keep_surplus:
        yield (
            "refill.keep_surplus: some groups come from the policy before its last update; truncated importance "
            "weights (loss.importance_cap) are all that corrects for it"
        )


def choice_lines(sampler: Sampler, selection: Selection, reduction: LossReduction) -> Iterator[str]:
    """What sampler and selection say of themselves, and what a denominator makes of pruning."""
    yield from (line for line in (sampler.bend(), selection.bend()) if line)
    within = getattr(selection, "selection", selection)  # of one that drops whole pools first
    traits = sampler.traits | selection.traits | within.traits
    prunes_responses = bool(traits & {Trait.PRUNES_RESPONSES, Trait.LEAVES_OUT_PROMPTS})
    # A prompt that is left out as a whole still counts among the prompts of a mean over prompts.
    undone = ConstantReduction if prunes_responses else ConstantReduction | PromptMeanReduction
    if (prunes_responses or Trait.PRUNES_PROMPTS in traits) and not isinstance(reduction, undone):
        yield (
            f"{type(reduction).__name__} divides by what pruning left: the weights of pruning no longer undo it; "
            "loss/reduction=constant does not"
        )


def evidence_lines(truncated: str) -> Iterator[str]:
    """Responses that are left out of the pass rate, or of the update only."""
    if truncated == "mask":
        yield "rollout.truncated=mask counts responses that do not train: then no pass rate is followed exactly"
    elif truncated == "exclude":
        yield "rollout.truncated=exclude: p is the pass rate among responses that end by themselves"


def step_lines(max_grad_norm: float) -> Iterator[str]:
    """Clipping of the whole gradient."""
    if math.isfinite(max_grad_norm):
        yield f"policy.max_grad_norm = {max_grad_norm:g} can shorten a step, not turn it"
