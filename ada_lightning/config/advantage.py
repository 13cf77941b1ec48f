"""Checks across advantage, reward and selection: whether there is anything to tell responses apart by."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from ada_lightning.config.setup import Setup
from ada_lightning.core.protocols import Advantage, Trait

_WITHOUT_COMPONENTS = ("exact_match", "format", "math", "numeric", "reasoning_gym")
"""Modules of rewards that return one number."""


def traits_at(run: Setup, key: str) -> frozenset[Trait]:
    """What is known of an advantage by its class; nothing where there is none or it cannot be loaded."""
    part = run.kind(key)
    return part.traits if issubclass(part, Advantage) else frozenset()


def advantage_errors(run: Setup) -> Iterator[str]:
    """Yield one message per problem. Parts that cannot be loaded are left alone: they are reported by themselves."""
    yield from _component_errors(run)
    yield from _contrast_errors(run)


def _component_errors(run: Setup) -> Iterator[str]:
    from ada_lightning.methods.advantages import GdpoAdvantage
    from ada_lightning.rewards.weighted import WeightedReward

    if not issubclass(run.kind("advantage"), GdpoAdvantage):
        return
    reward = run.kind("reward.reward")
    if reward.__module__ in {f"ada_lightning.rewards.{module}" for module in _WITHOUT_COMPONENTS}:
        yield (
            f"advantage: GdpoAdvantage needs the components of a reward, and reward.reward = {reward.__name__} has "
            "none; use reward=weighted, a function that returns a Verdict with components, or advantage=grpo"
        )
    parts = run.value("reward.reward.rewards")
    if not issubclass(reward, WeightedReward) or not isinstance(parts, DictConfig):
        return
    for name in run.value("advantage.weights") or ():
        if str(name).partition("/")[0] not in parts:  # what follows a slash is a component's own component
            yield (
                f"advantage.weights.{name}: the reward has no component {name}; it has {', '.join(map(str, parts))}; "
                f"leave it out with ~advantage.weights.{name} or add it to reward.reward.rewards"
            )


def _contrast_errors(run: Setup) -> Iterator[str]:
    """Advantages that compare the responses of a group do not go with positives alone."""
    from ada_lightning.methods.selection import PositivesSelection

    if not issubclass(run.kind("selection"), PositivesSelection):
        return
    for key in ("advantage", "advantage.advantage"):
        part = run.kind(key)
        if traits_at(run, key) & {Trait.COMPARES_KEPT, Trait.NEEDS_BOTH_CLASSES}:
            yield (
                f"selection: PositivesSelection keeps no negative, and {key} = {part.__name__} compares the kept "
                "responses of a prompt with each other; use advantage=accepted, or selection=all"
            )
