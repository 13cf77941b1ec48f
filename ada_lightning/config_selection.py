"""Checks across selection, sampler and advantage: whether each is what the others assume."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from ada_lightning.config_problems import class_at, number_at


def selection_errors(cfg: DictConfig) -> Iterator[str]:
    """Yield one message per problem. Classes that cannot be loaded are reported by themselves."""
    from ada_lightning.advantages import HistoryBaselineAdvantage
    from ada_lightning.selection import ThinnedSelection

    selection, advantage = class_at(cfg, "selection"), class_at(cfg, "advantage")
    if getattr(selection, "ranks_by_advantage", False) and getattr(advantage, "compares", None) == "kept":
        yield (
            f"selection: {selection.__name__} takes advantages over the whole pool, and {advantage.__name__} compares "
            "with what was kept of it; use advantage=official, with advantage.normalize_std=true for GRPO's"
        )
    if issubclass(selection, ThinnedSelection) and not issubclass(advantage, HistoryBaselineAdvantage):
        yield (
            f"selection: {selection.__name__} thins out prompts whose rewards are all equal by their advantage against "
            f"history, and with {advantage.__name__} those do not train, or not by that; use "
            "advantage=history_baseline, or selection=all"
        )
    yield from _class_errors(cfg, selection)
    yield from _size_errors(cfg, selection)


def _class_errors(cfg: DictConfig, selection: type) -> Iterator[str]:
    """What ranks responses may keep one class of a pool alone, and nothing makes up for the pull that is gone."""
    if not getattr(selection, "may_drop_a_class", False):
        return
    for key in ("advantage", "advantage.advantage"):
        if getattr(part := class_at(cfg, key), "needs_both_classes", False):
            yield (
                f"selection: {selection.__name__} may drop all positives or all negatives of a pool that has both, and "
                f"{key} = {part.__name__} follows its objective only where both are kept; use advantage=official, or "
                "selection=balanced"
            )


def _size_errors(cfg: DictConfig, selection: type) -> Iterator[str]:
    """Of a group size that nobody would keep to.

    Not asked of the samplers that go on in blocks: their default is small, for the balanced selections.
    """
    from ada_lightning.sampling import (
        CobaSampler,
        EstimatedSampler,
        GvmSampler,
        KnapsackSampler,
        PilotSampler,
        VipSampler,
        XrpoSampler,
    )

    sampler = class_at(cfg, "sampler")
    plans = (CobaSampler, EstimatedSampler, GvmSampler, KnapsackSampler, PilotSampler, VipSampler, XrpoSampler)
    if not (issubclass(sampler, plans) and getattr(selection, "keeps_what_there_is", False)):
        return
    pilots = [
        number_at(cfg, f"sampler.{name}") or 0 for name in ("num_pilot", "num_commit", "num_screen", "num_continue")
    ]
    most = number_at(cfg, "sampler.n_max") or sum(pilots)
    group_size = number_at(cfg, "sampler.group_size")
    if group_size is not None and group_size < most:
        yield (
            f"sampler.group_size = {group_size} has no effect: {selection.__name__} keeps what there is, up to {most} "
            "responses of a prompt; use a selection that chooses (selection=balanced, quantile or stratified), draw "
            "fewer, or leave it out"
        )
