"""Checks across sampler, selection, advantage, curriculum and reward: whether each has what it goes by.

Everything that needs torch is imported where it is used: the command line is checked before torch is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ada_lightning.config.setup import Setup

if TYPE_CHECKING:
    from ada_lightning.core.protocols import Objective, Sampler
    from ada_lightning.core.stopping.rule import StoppingRule


def estimator_errors(run: Setup) -> Iterator[str]:
    """Yield one message per problem. Parts that cannot be made are left alone: they are reported by themselves."""
    from ada_lightning.analysis.statement.rules import rule_without_history
    from ada_lightning.core.protocols import Sampler
    from ada_lightning.methods.advantages import ExactAdvantage, StratifiedAdvantage

    yield from budget_errors(run)
    advantage, sampler, selection = (run.part(key) for key in ("advantage", "sampler", "selection"))
    yield from history_errors(sampler, run.part("estimator"))
    if isinstance(advantage, ExactAdvantage | StratifiedAdvantage):
        yield from class_errors(selection)
    if isinstance(sampler, Sampler):
        rule = rule_without_history(sampler)
        yield from path_errors(advantage, sampler, rule)
        if isinstance(advantage, ExactAdvantage) and rule is not None:
            yield from support_errors(advantage.objective, rule)


def path_errors(advantage: Any, sampler: Sampler, rule: StoppingRule | None) -> Iterator[str]:
    """Whoever counts paths needs a stopping rule of counts."""
    from ada_lightning.methods.advantages import ExactAdvantage
    from ada_lightning.methods.pass_rates import PathCountingRate

    if rule is not None:
        return
    reason = f"{type(sampler).__name__} ends a prompt's sampling by more than its counts, so paths cannot be counted"
    if isinstance(advantage, ExactAdvantage):
        yield f"advantage: {reason}; use advantage=stratified or advantage=weighted_leave_one_out with this sampler"
    for name, other in (("pass_rate", "PoolMeanRate"), ("baseline", "LeaveOneOutRate")):
        if isinstance(getattr(advantage, name, None), PathCountingRate):
            yield f"advantage.{name}: {reason}; use ada_lightning.methods.pass_rates.{other} with this sampler"


def support_errors(objective: Objective, rule: StoppingRule) -> Iterator[str]:
    """Something of the objective must be within reach of the stopping rule."""
    from ada_lightning.methods.objectives.support import UnsupportedObjectiveError, check_supported

    try:
        check_supported(objective, rule)
    except UnsupportedObjectiveError as error:
        yield f"objective: {error}"


def history_errors(sampler: Any, estimator: Any) -> Iterator[str]:
    """A sampler that asks how much was seen of a prompt needs an estimator that counts, and remembers as much."""
    from ada_lightning.core.protocols import PassRateEstimator, Trait
    from ada_lightning.methods.estimators import WindowEstimator

    min_seen = getattr(sampler, "min_seen", 0)
    if not isinstance(estimator, PassRateEstimator) or not isinstance(min_seen, int) or min_seen <= 0:
        return
    if not estimator.remembers_prompts or Trait.SHARES_EVIDENCE in estimator.traits:
        yield (
            f"sampler.min_seen = {min_seen} asks for responses seen of each prompt, and {type(estimator).__name__} "
            "counts none: every plan would be uniform; use sampler.min_seen=0 to trust its predictions, or "
            "estimator=window"
        )
    elif isinstance(estimator, WindowEstimator) and estimator.window < min_seen:
        yield (
            f"sampler.min_seen = {min_seen} exceeds estimator.window = {estimator.window}: a prompt with fewer "
            f"responses than that at its last visit would be unknown again; use estimator.window={min_seen} or more"
        )


def class_errors(selection: Any) -> Iterator[str]:
    """The pull on kept positives is balanced by that on kept negatives, so both classes must be kept."""
    from ada_lightning.methods.selection import ResolvedSelection

    if isinstance(selection, ResolvedSelection):
        yield (
            "selection: ResolvedSelection drops prompts by their results, and the chosen advantage counts on every "
            "prompt that was sampled; use selection=all, or advantage=grpo with it"
        )
        yield from class_errors(selection.selection)
    group_size = getattr(selection, "group_size", None)
    if isinstance(group_size, int) and group_size < 2:
        yield (
            f"selection.group_size = {group_size} keeps one class only, and the chosen advantage needs a response of "
            "each; use sampler.group_size=2 or more"
        )


def budget_errors(run: Setup) -> Iterator[str]:
    """A step's budget must reach for the first block of every prompt."""
    keys = ("sampler.budget_per_step", "data.prompts_per_step", "sampler.samples_per_round")
    budget, prompts, block = (run.number(key) for key in keys)
    if budget and prompts and block and 0 < budget < prompts * block:
        yield (
            f"sampler.budget_per_step = {budget} is less than data.prompts_per_step * sampler.samples_per_round = "
            f"{prompts} * {block}: some prompts would never be drawn; use sampler.budget_per_step={prompts * block} or "
            "more, or 0 for no limit"
        )


def curriculum_errors(run: Setup) -> Iterator[str]:
    """Yield one message per problem. Parts that cannot be made are left alone: they are reported by themselves."""
    from ada_lightning.core.protocols import Curriculum, PassRateEstimator

    curriculum, estimator = run.part("curriculum"), run.part("estimator")
    if not isinstance(estimator, PassRateEstimator) or not isinstance(curriculum, Curriculum):
        return
    if curriculum.needs_history and not estimator.remembers_prompts:
        yield (
            f"curriculum: {type(curriculum).__name__} chooses by what is remembered of each prompt, and "
            f"{type(estimator).__name__} keeps nothing by prompt; use estimator=beta_history or estimator=ema with it, "
            "or curriculum=uniform"
        )


def label_errors(run: Setup) -> Iterator[str]:
    """Yield a message where the reward tells no answers, or answers that depend on the reference."""
    from ada_lightning.core.protocols import Sampler, Trait

    sampler, reward = run.part("sampler"), run.part("reward.reward")
    if not isinstance(sampler, Sampler) or Trait.GIVES_REWARDS not in sampler.traits or reward is None:
        return
    told = getattr(reward, "answers_without_reference", None)
    if told is True:
        return
    name = type(reward).__name__
    reason = f"{name} spells an answer like the reference where it equals it" if told is False else f"{name} tells none"
    yield (
        f"sampler: {type(sampler).__name__} makes labels of the answers that a reward finds without the reference, and "
        f"{reason}; use reward=exact_match, reward=numeric, reward=reasoning_gym, reward=math with "
        "reward.reward.own_spelling=true, or a function that returns a Verdict with an answer and has the attribute "
        "answers_without_reference = True"
    )
