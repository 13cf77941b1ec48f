"""Checks across selection, sampler and advantage: whether each is what the others assume."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.config.advantage import traits_at
from ada_lightning.config.setup import Setup
from ada_lightning.core.protocols import Trait


def selection_errors(run: Setup) -> Iterator[str]:
    """Yield one message per problem. Classes that cannot be loaded are reported by themselves."""
    chosen = run.kind("selection")
    for key in ("selection", "selection.selection"):  # the second: of a selection that drops whole pools first
        selection = run.kind(key)
        yield from _rank_errors(run, key, selection)
        yield from _class_errors(run, key, selection)
        yield from _pruning_errors(run, key, selection)
        yield from _thinning_errors(run, key, selection)
    yield from _size_errors(run, chosen)


def _has(selection: type, *names: str) -> bool:
    """Whether a class is a selection with one of these traits; what cannot be loaded is none."""
    from ada_lightning.core.protocols import Selection, Trait

    return issubclass(selection, Selection) and any(Trait[name] in selection.traits for name in names)


def _rank_errors(run: Setup, key: str, selection: type) -> Iterator[str]:
    """What ranks responses by their advantage knows that of the whole pool alone."""
    if not _has(selection, "RANKS_BY_ADVANTAGE"):
        return
    for part in ("advantage", "advantage.advantage"):
        if Trait.COMPARES_KEPT in traits_at(run, part):
            yield (
                f"{key}: {selection.__name__} takes advantages over the whole pool, and {part} = "
                f"{run.kind(part).__name__} compares with what was kept of it; use advantage=official, with "
                "advantage.normalize_std=true for GRPO's"
            )


def _class_errors(run: Setup, key: str, selection: type) -> Iterator[str]:
    """What ranks responses may keep one class of a pool alone, and nothing makes up for the pull that is gone."""
    if not _has(selection, "MAY_DROP_A_CLASS"):
        return
    for part in ("advantage", "advantage.advantage"):
        if Trait.NEEDS_BOTH_CLASSES in traits_at(run, part):
            yield (
                f"{key}: {selection.__name__} may drop all positives or all negatives of a pool that has both, and "
                f"{part} = {run.kind(part).__name__} follows its objective only where both are kept; use "
                "advantage=official, or selection=balanced"
            )


def _pruning_errors(run: Setup, key: str, selection: type) -> Iterator[str]:
    """The weights of pruning are those of advantages: other terms would count what is left out as nothing."""
    if not _has(selection, "PRUNES_RESPONSES", "PRUNES_PROMPTS"):
        return
    for name in ("kl_coef", "entropy_coef"):
        if run.number(f"loss.{name}"):
            yield (
                f"{key}: {selection.__name__} leaves out responses by chance and makes up for it in their advantages; "
                f"loss.{name} = {run.number(f'loss.{name}')} would act on what is left alone; use loss.{name}=0, "
                "or selection=all"
            )


def _thinning_errors(run: Setup, key: str, selection: type) -> Iterator[str]:
    """Prompts whose rewards are all equal must train, and by the advantage that thinning goes by."""
    from ada_lightning.methods.selection import ThinnedSelection

    if not issubclass(selection, ThinnedSelection):
        return
    from ada_lightning.methods.advantages import HistoryBaselineAdvantage
    from ada_lightning.methods.refill import NoRefill
    from ada_lightning.training.losses import ResponseMeanReduction, TokenMeanReduction

    if not issubclass(advantage := run.kind("advantage"), HistoryBaselineAdvantage):
        yield (
            f"{key}: {selection.__name__} thins out prompts whose rewards are all equal by their advantage against "
            f"history, and with {advantage.__name__} those do not train, or not by that; use "
            "advantage=history_baseline, or selection=all"
        )
    if getattr(run.kind("loss"), "needs_groups_without_signal", None) is True:
        yield (
            f"{key}: {selection.__name__} weighs what it keeps by its advantage, and loss = "
            f"{run.kind('loss').__name__} trains on prompts whose rewards are all equal by other terms; use "
            "selection=all with this loss"
        )
    if issubclass(reduction := run.kind("loss.reduction"), ResponseMeanReduction | TokenMeanReduction):
        yield (
            f"{key}: {selection.__name__} leaves out responses by chance and makes up for it in others' advantages; "
            f"loss.reduction = {reduction.__name__} would divide by what is left; use loss/reduction=constant or "
            "loss/reduction=prompt_mean"
        )
    if not issubclass(refill := run.kind("refill"), NoRefill):
        yield (
            f"{key}: {selection.__name__} thins out prompts whose rewards are all equal, and {refill.__name__} "
            "replaces every one of them; use refill=none, or selection=all"
        )


def _size_errors(run: Setup, selection: type) -> Iterator[str]:
    """Of a group size that nobody would keep to.

    Not asked of the samplers that go on in blocks: their default is small, for the balanced selections.
    """
    from ada_lightning.methods.sampling import (
        CobaSampler,
        EstimatedSampler,
        GvmSampler,
        KnapsackSampler,
        PilotSampler,
        VipSampler,
        XrpoSampler,
    )

    sampler = run.kind("sampler")
    plans = (CobaSampler, EstimatedSampler, GvmSampler, KnapsackSampler, PilotSampler, VipSampler, XrpoSampler)
    if not (issubclass(sampler, plans) and _has(selection, "KEEPS_WHAT_THERE_IS")):
        return
    pilots = [run.number(f"sampler.{name}") or 0 for name in ("num_pilot", "num_commit", "num_screen", "num_continue")]
    most = run.number("sampler.n_max") or sum(pilots)
    group_size = run.number("sampler.group_size")
    if group_size is not None and group_size < most:
        yield (
            f"sampler.group_size = {group_size} has no effect: {selection.__name__} keeps what there is, up to {most} "
            "responses of a prompt; use a selection that chooses (selection=balanced, quantile or stratified), draw "
            "fewer, or leave it out"
        )
