"""Checks what an advantage needs: a comparison, both classes, its kind of rewards, a rule of counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ada_lightning.analysis.statement.rules import contradiction, rule_alone
from ada_lightning.core.protocols import Advantage, Sampler, Trait
from ada_lightning.methods.advantages import ExactAdvantage, StratifiedAdvantage
from ada_lightning.methods.objectives.support import UnsupportedObjectiveError, check_supported
from ada_lightning.methods.pass_rates import PathCountingRate
from ada_lightning.methods.published.gdpo import GdpoAdvantage
from ada_lightning.methods.published.pilot_commit import ResolvedSelection
from ada_lightning.methods.published.raft import PositivesSelection
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.methods.selection import RewardStrataSelection
from ada_lightning.methods.view import ADVANTAGES, SELECTIONS, MethodView

TWO_CLASSES = (ExactAdvantage, StratifiedAdvantage)
"""Estimators that are for rewards of 0 and 1, and weigh one class of kept responses against the other."""
_WITHOUT_COMPONENTS = ("exact_match", "format", "math", "numeric", "reasoning_gym")
"""Modules of rewards that return one number."""


def objective_errors(run: MethodView) -> Iterator[str]:
    """Most advantages have a rule of their own instead of an objective."""
    if "objective" in run.cfg and "objective" not in (run.value("advantage") or ()):
        yield (
            "objective is set, but the chosen advantage has none: it follows its own rule whatever the objective; "
            "use advantage=exact or advantage=stratified, or leave the objective out"
        )


def component_errors(run: MethodView) -> Iterator[str]:
    """GDPO normalises each component of a reward by itself."""
    key = next((key for key in ADVANTAGES if run.is_a(key, GdpoAdvantage)), "")
    if not key:
        return
    from ada_lightning.rewards.weighted import WeightedReward  # loads verifiers

    reward = run.kind("reward.reward")
    if reward.__module__ in {f"ada_lightning.rewards.{module}" for module in _WITHOUT_COMPONENTS}:
        yield (
            f"{key}: GdpoAdvantage needs the components of a reward, and reward.reward = {reward.__name__} has "
            "none; use reward=weighted, a function that returns a Verdict with components, or advantage=grpo"
        )
    components = run.names("reward.reward.rewards") if issubclass(reward, WeightedReward) else []
    for name in run.names(f"{key}.weights") if components else ():
        if name.partition("/")[0] not in components:  # what follows a slash is a component's own component
            yield (
                f"{key}.weights.{name}: the reward has no component {name}; it has {', '.join(components)}; "
                f"leave it out with ~{key}.weights.{name} or add it to reward.reward.rewards"
            )


def stratum_errors(run: MethodView) -> Iterator[str]:
    """Estimators of two classes do not go with strata of rewards, nor with partial credit."""
    if run.is_a("selection", RewardStrataSelection) and run.is_a("advantage", *TWO_CLASSES):
        yield (
            f"selection: {run.name('selection')} weighs responses by their stratum of rewards, but "
            f"{run.name('advantage')} needs weights by positive and negative; use advantage=weighted_leave_one_out or "
            "selection=balanced"
        )
    cause, way_out = _partial_credit(run)
    for key in ("advantage", "advantage.pass_rate", "advantage.baseline", "advantage.advantage") if cause else ():
        if run.is_a(key, *TWO_CLASSES, PathCountingRate):
            yield (
                f"{cause}, and {key} = {run.name(key)} is for rewards of 0 and 1: all between would be lost; "
                f"use advantage=weighted_leave_one_out{way_out}"
            )
            return


def _partial_credit(run: MethodView) -> tuple[str, str]:
    """Return what makes rewards lie between 0 and 1, and a further way out; two empty texts if nothing does."""
    if run.value("reward") is None:  # a loop of one's own grades by itself
        return "", ""
    from ada_lightning.rewards.overlong import OverlongReward  # loads verifiers
    from ada_lightning.rewards.weighted import WeightedReward

    if run.is_a("reward.reward", OverlongReward):
        return "reward.reward takes something off for length", " or another reward"
    names = [f"rewards.{name}" for name in run.names("reward.reward.rewards")]
    for reward in ("reward.reward", *(f"reward.reward.{name}" for name in (*names, "default"))):
        if run.value(f"{reward}.binary") is False:
            return f"{reward}.binary = false gives partial credit", f" or {reward}.binary=true"
        if run.is_a(reward, WeightedReward):
            return f"{reward} is a weighted sum", ""
    return "", ""


def contrast_errors(run: MethodView) -> Iterator[str]:
    """Advantages that compare the responses of a group do not go with positives alone."""
    for key in ADVANTAGES if any(run.is_a(part, PositivesSelection) for part in SELECTIONS) else ():
        if run.has(key, Trait.COMPARES_KEPT, Trait.NEEDS_BOTH_CLASSES):
            yield (
                f"selection: PositivesSelection keeps no negatives, but {key} = {run.name(key)} compares the kept "
                "responses of a prompt with each other; use advantage=accepted, or selection=all"
            )


def group_errors(run: MethodView) -> Iterator[str]:
    """A group of one holds nothing to compare a response with: its gradient is zero everywhere."""
    advantage, sampler, selection = (run.part(key) for key in ("advantage", "sampler", "selection"))
    if not isinstance(advantage, Advantage):
        return
    drawn = "group_size" if isinstance(sampler, UniformSampler) else "n_max"
    num_drawn = getattr(sampler, drawn, None)
    num_kept = getattr(getattr(selection, "within", None), "group_size", None)  # None: it could not be made
    traits = advantage.traits
    # One response that is kept of a rule that needs both classes is what class_errors looks at.
    is_left = num_kept == 1 and Trait.NEEDS_BOTH_CLASSES in traits
    if num_drawn == 1 and traits & {Trait.COMPARES_DRAWN, Trait.COMPARES_KEPT} and not is_left:
        key, what = f"sampler.{drawn}", "drawn"
    elif num_kept == 1 and Trait.COMPARES_KEPT in traits:
        key, what = "selection.group_size", "kept"
    else:
        return
    yield (
        f"{key} = 1: {type(advantage).__name__} compares the responses of a prompt with each other, and where one "
        f"alone is {what} every advantage is zero and nothing trains; use sampler.group_size=2 or more, or "
        "advantage=history_baseline, which compares with what is remembered of the prompt"
    )


def class_errors(run: MethodView) -> Iterator[str]:
    """The pull on kept positives is balanced by that on kept negatives, so both classes must be kept."""
    selection: Any = run.part("selection") if isinstance(run.part("advantage"), TWO_CLASSES) else None
    if isinstance(selection, ResolvedSelection):
        yield (
            "selection: ResolvedSelection drops prompts by their results, and the chosen advantage counts on every "
            "prompt that was sampled; use selection=all, or advantage=grpo with it"
        )
        selection = selection.selection
    group_size = getattr(selection, "group_size", None)
    if isinstance(group_size, int) and group_size < 2:
        yield (
            f"selection.group_size = {group_size} keeps only one class, but the chosen advantage needs a response of "
            "each; use sampler.group_size=2 or more"
        )


def rule_errors(run: MethodView) -> Iterator[str]:
    """What a sampler names as its rule must be what ends its prompts: the statement and the estimators go by it."""
    sampler = run.part("sampler")
    if isinstance(sampler, Sampler) and (problem := contradiction(sampler)):
        yield (
            f"sampler: {problem}; a rule is asked after every response, so let it stop where the sampler does: put the "
            "block into it, as (num_positive + num_negative) % samples_per_round == 0, or draw one response at a time"
        )


def path_errors(run: MethodView) -> Iterator[str]:
    """Whoever counts paths needs a stopping rule of counts, and something of its objective within the rule's reach."""
    advantage, sampler = run.part("advantage"), run.part("sampler")
    if not isinstance(sampler, Sampler):
        return
    rules = [rule for is_seen in (False, True) if (rule := rule_alone(sampler, is_seen=is_seen)) is not None]
    try:
        for rule in rules if isinstance(advantage, ExactAdvantage) else ():
            check_supported(advantage.objective, rule)
    except UnsupportedObjectiveError as error:
        yield f"objective: {error}"
    if rules:
        return
    reason = f"{type(sampler).__name__} ends a prompt's sampling by more than its counts, so paths cannot be counted"
    if isinstance(advantage, ExactAdvantage):
        yield f"advantage: {reason}; use advantage=stratified or advantage=weighted_leave_one_out with this sampler"
    for name, other in (("pass_rate", "PoolMeanRate"), ("baseline", "LeaveOneOutRate")):
        if isinstance(getattr(advantage, name, None), PathCountingRate):
            yield f"advantage.{name}: {reason}; use ada_lightning.methods.pass_rates.{other} with this sampler"
