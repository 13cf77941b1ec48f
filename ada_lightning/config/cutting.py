"""What does not go with a sampler that cuts long responses by chance: all that would make its weights wrong."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.config.view import ConfigView
from ada_lightning.core.protocols import Curriculum, Trait
from ada_lightning.methods.advantages import HistoryBaselineAdvantage, RoundedHistoryAdvantage
from ada_lightning.methods.refill import NoRefill
from ada_lightning.methods.selection import AllSelection, ThinnedSelection


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
            f"{own} leaves long responses out by chance, so that what is left is no sample of the pass rate, and "
            f"advantage = {run.name('advantage')} takes it for one; use advantage=history_baseline"
        )
    if not run.is_a("selection", AllSelection, ThinnedSelection):
        yield f"{own} weighs the responses that are left, and {run.name('selection')} counts them; use selection=all"
    if not run.is_a("refill", NoRefill):
        yield f"{own} leaves groups with fewer responses, and {run.name('refill')} replaces some; use refill=none"
    curriculum = run.kind("curriculum")
    if issubclass(curriculum, Curriculum) and curriculum.observe is not Curriculum.observe:
        yield (
            f"{own} leaves a part of a group as evidence, and curriculum: {run.name('curriculum')} judges prompts by "
            "whole groups; use curriculum=learnability, or another that goes by the estimator"
        )


def _update_errors(run: ConfigView, own: str) -> Iterator[str]:
    """The weights are those of advantages, in a sum that is linear in them."""
    from ada_lightning.training.losses import ConstantReduction  # loads torch
    from ada_lightning.training.token_masks import CapoMask

    if not run.is_a("loss.reduction", ConstantReduction):
        yield (
            f"{own} makes up for what it cuts in the others' weights, and loss.reduction = "
            f"{run.name('loss.reduction')} divides by what is left; use loss/reduction=constant"
        )
    for name in ("kl_coef", "entropy_coef"):
        if value := run.number(f"loss.{name}"):
            yield f"{own}: loss.{name} = {value} would act on what is left alone; use loss.{name}=0"
    if getattr(run.kind("loss"), "needs_groups_without_signal", None) is True:
        yield f"{own} weighs advantages, and loss = {run.name('loss')} is not linear in them; use loss=clipped"
    for name in run.names("token_masks"):
        if run.is_a(f"token_masks.{name}", CapoMask):
            yield (
                f"{own} weighs advantages, and token_masks.{name} leaves out tokens where those are large; leave the "
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
        yield f"{own} cuts single responses, and an episode has several turns; use environment=none or another sampler"
