"""Checks across refill, sampler, reward and loss: whether a step can be filled up as asked."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.core.protocols import Refill, Sampler, Trait
from ada_lightning.methods.view import MethodView


def overlong_errors(run: MethodView) -> Iterator[str]:
    """Responses that the reward never sees have no penalty."""
    from ada_lightning.rewards.overlong import OverlongReward  # loads verifiers

    truncated = run.value("rollout.truncated")
    if run.is_a("reward.reward", OverlongReward) and truncated in ("zero", "exclude"):
        yield (
            f"rollout.truncated = {truncated} keeps responses that the limit cut from the reward, and OverlongReward "
            "is about those; use rollout.truncated=grade or mask"
        )


def refill_errors(run: MethodView) -> Iterator[str]:
    """Yield one message per problem. Parts that cannot be made are left alone: they are reported by themselves."""
    refill, sampler = run.part("refill"), run.part("sampler")
    if not isinstance(refill, Refill) or not refill.is_on:
        return
    if budget := run.number("sampler.budget_per_step"):
        yield (
            f"sampler.budget_per_step = {budget} divides a step among its prompts, and refill lets further ones join; "
            "use refill.max_ratio to limit a step, and sampler.budget_per_step=0"
        )
    if isinstance(sampler, Sampler) and Trait.LEAVES_OUT_PROMPTS in sampler.traits:
        yield (
            f"sampler: {type(sampler).__name__} leaves prompts out and weighs the others so that the mean over all of "
            "them is right, and refill replaces what was left out; use refill=none or another sampler"
        )
    if component := getattr(refill, "component", ""):
        yield from _component_errors(run, component)


def _component_errors(run: MethodView, component: str) -> Iterator[str]:
    """The component must be one that the reward has, where its components are known without a response."""
    if run.value("reward") is None:  # a loop of one's own grades by itself
        return
    from ada_lightning.rewards.overlong import OverlongReward  # loads verifiers
    from ada_lightning.rewards.weighted import WeightedReward

    is_overlong = run.is_a("reward.reward", OverlongReward)
    known = ["correct", "overlong"] if is_overlong else run.names("reward.reward.rewards")
    is_weighted = run.is_a("reward.reward.reward" if is_overlong else "reward.reward", WeightedReward)
    if not known or not (is_overlong or is_weighted):
        return
    if component not in known and not (is_weighted and ("/" in component or is_overlong)):
        yield (
            f"refill.component = {component}: {run.name('reward.reward')} has the components {', '.join(known)}; use "
            "one of them, or refill.component='' for the reward itself"
        )
