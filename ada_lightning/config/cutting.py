"""What does not go with a sampler that cuts long responses by chance: all that would make its weights wrong."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.config.setup import Setup
from ada_lightning.core.protocols import Trait
from ada_lightning.methods.advantages import HistoryBaselineAdvantage, RoundedHistoryAdvantage
from ada_lightning.methods.refill import NoRefill
from ada_lightning.methods.selection import AllSelection, ThinnedSelection


def cutting_errors(run: Setup) -> Iterator[str]:
    """Yield one message per problem; none without such a sampler."""
    for key in ("sampler", "sampler.sampler"):  # the second: of one that leaves out prompts first
        if run.has(key, Trait.CUTS_RESPONSES):
            yield from _errors(run, key)


def _errors(run: Setup, key: str) -> Iterator[str]:
    from ada_lightning.training.losses import ConstantReduction  # loads torch

    own = f"{key}: {run.name(key)}"
    if not run.is_a("advantage", HistoryBaselineAdvantage, RoundedHistoryAdvantage):
        yield (
            f"{own} leaves long responses out by chance, so that what is left is no sample of the pass rate, and "
            f"advantage = {run.name('advantage')} takes it for one; use advantage=history_baseline"
        )
    if not run.is_a("selection", AllSelection, ThinnedSelection):
        yield f"{own} weighs the responses that are left, and {run.name('selection')} counts them; use selection=all"
    if not run.is_a("refill", NoRefill):
        yield f"{own} leaves groups with fewer responses, and {run.name('refill')} replaces some; use refill=none"
    if not run.is_a("loss.reduction", ConstantReduction):
        yield (
            f"{own} makes up for what it cuts in the others' weights, and loss.reduction = "
            f"{run.name('loss.reduction')} divides by what is left; use loss/reduction=constant"
        )
    for name in ("kl_coef", "entropy_coef"):
        if value := run.number(f"loss.{name}"):
            yield f"{own}: loss.{name} = {value} would act on what is left alone; use loss.{name}=0"
    at, limit = run.number(f"{key}.num_tokens"), run.number("rollout.sampling.max_new_tokens")
    if at is not None and limit is not None and at >= limit:
        yield (
            f"{key}.num_tokens = {at:g} cuts nothing: rollout.sampling.max_new_tokens = {limit:g} ends every response "
            f"by then; use {key}.num_tokens={limit / 2:.0f} or another sampler"
        )
    if run.kind("environment") is not object:
        yield f"{own} cuts single responses, and an episode has several turns; use environment=none or another sampler"
