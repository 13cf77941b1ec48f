"""Checks across selection, sampler and advantage: whether each is what the others assume."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.core.protocols import Trait
from ada_lightning.methods.advantages import HistoryBaselineAdvantage
from ada_lightning.methods.published.coba import CobaSampler
from ada_lightning.methods.published.gvm import GvmSampler
from ada_lightning.methods.published.knapsack import KnapsackSampler
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.published.vip import VipSampler
from ada_lightning.methods.published.xrpo import XrpoSampler
from ada_lightning.methods.refill import NoRefill
from ada_lightning.methods.sampling import PilotSampler
from ada_lightning.methods.selection import ThinnedSelection
from ada_lightning.methods.view import ADVANTAGES, SELECTIONS, MethodView

PLANS = (CobaSampler, EstimatedSampler, GvmSampler, KnapsackSampler, PilotSampler, VipSampler, XrpoSampler)
"""Samplers that do not go on in blocks; the default group size of those that do is small, for balanced selections."""


def selection_errors(run: MethodView) -> Iterator[str]:
    """Yield one message per problem. Classes that cannot be loaded are reported by themselves."""
    for key in SELECTIONS:
        yield from _advantage_errors(run, key)
        yield from _pruning_errors(run, key, "selection=all")
        yield from _thinning_errors(run, key)
    yield from _pruning_errors(run, "sampler", "sampler=uniform")
    yield from _size_errors(run)


def _advantage_errors(run: MethodView, key: str) -> Iterator[str]:
    """What ranks responses knows their advantage over the whole pool, and may keep one class of a pool alone."""
    for part in ADVANTAGES if run.has(key, Trait.RANKS_BY_ADVANTAGE) else ():
        if run.has(part, Trait.COMPARES_KEPT):
            yield (
                f"{key}: {run.name(key)} takes advantages over the whole pool, and {part} = {run.name(part)} compares "
                "with what was kept of it; use advantage=official, with advantage.normalize_std=true for GRPO's"
            )
    for part in ADVANTAGES if run.has(key, Trait.MAY_DROP_A_CLASS) else ():
        if run.has(part, Trait.NEEDS_BOTH_CLASSES):  # nothing would make up for the pull that is gone
            yield (
                f"{key}: {run.name(key)} may drop all positives or all negatives of a pool that has both, and "
                f"{part} = {run.name(part)} follows its objective only where both are kept; use advantage=official, or "
                "selection=balanced"
            )


def _pruning_errors(run: MethodView, key: str, way_out: str) -> Iterator[str]:
    """The weights of pruning are those of advantages: other terms would count what is left out as nothing."""
    prunes = run.has(key, Trait.PRUNES_RESPONSES, Trait.PRUNES_PROMPTS, Trait.LEAVES_OUT_PROMPTS)
    for name in ("kl_coef", "entropy_coef") if prunes else ():
        if value := run.number(f"loss.{name}"):
            yield (
                f"{key}: {run.name(key)} leaves out responses by chance and makes up for it in their advantages; "
                f"loss.{name} = {value} would act on what is left alone; use loss.{name}=0, or {way_out}"
            )


def _thinning_errors(run: MethodView, key: str) -> Iterator[str]:
    """Prompts whose rewards are all equal must train, and by the advantage that thinning goes by."""
    if not run.is_a(key, ThinnedSelection):
        return
    own = f"{key}: {run.name(key)}"
    if not run.is_a("advantage", HistoryBaselineAdvantage):
        yield (
            f"{own} thins out prompts whose rewards are all equal by their advantage against history, and with "
            f"{run.name('advantage')} those do not train, or not by that; use advantage=history_baseline, or "
            "selection=all"
        )
    if getattr(run.kind("loss"), "needs_groups_without_signal", None) is True:
        yield (
            f"{own} weighs what it keeps by its advantage, and loss = {run.name('loss')} trains on prompts whose "
            "rewards are all equal by other terms; use selection=all with this loss"
        )
    from ada_lightning.training.losses import ResponseMeanReduction, TokenMeanReduction  # loads torch

    if run.is_a("loss.reduction", ResponseMeanReduction, TokenMeanReduction):
        yield (
            f"{own} leaves out responses by chance and makes up for it in others' advantages; loss.reduction = "
            f"{run.name('loss.reduction')} would divide by what is left; use loss/reduction=constant or "
            "loss/reduction=prompt_mean"
        )
    if not run.is_a("refill", NoRefill):
        yield (
            f"{own} thins out prompts whose rewards are all equal, and {run.name('refill')} replaces every one of "
            "them; use refill=none, or selection=all"
        )


def _size_errors(run: MethodView) -> Iterator[str]:
    """Of a group size that nobody would keep to."""
    sampler = run.part("sampler")
    if not (isinstance(sampler, PLANS) and run.has("selection", Trait.KEEPS_WHAT_THERE_IS)):
        return
    most = sampler.most_per_prompt
    if sampler.group_size < most:
        yield (
            f"sampler.group_size = {sampler.group_size} has no effect: {run.name('selection')} keeps what there is, "
            f"up to {most} responses of a prompt; use a selection that chooses (selection=balanced, quantile or "
            "stratified), draw fewer, or leave it out"
        )
