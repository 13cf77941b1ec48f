"""Refuses parts of a method that do not go together: estimator, curriculum, sampler, selection, refill, hints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ada_lightning.config.advantage import (
    class_errors,
    component_errors,
    contrast_errors,
    group_errors,
    objective_errors,
    path_errors,
    rule_errors,
    stratum_errors,
)
from ada_lightning.core.following import why_no_hint
from ada_lightning.core.protocols import (
    Advantage,
    Curriculum,
    FollowUp,
    PassRateEstimator,
    Refill,
    Sampler,
    Selection,
    Trait,
)
from ada_lightning.methods.advantages import HistoryBaselineAdvantage
from ada_lightning.methods.curriculum.auto import FEWEST_PROMPTS, AutoCurriculum
from ada_lightning.methods.estimators import WindowEstimator
from ada_lightning.methods.published.coba import CobaSampler
from ada_lightning.methods.published.gvm import GvmSampler
from ada_lightning.methods.published.knapsack import KnapsackSampler
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.published.vip import VipSampler
from ada_lightning.methods.published.xrpo import XrpoSampler
from ada_lightning.methods.refill import NoRefill
from ada_lightning.methods.sampling import FirstVisitSampler, PilotSampler, UniformSampler
from ada_lightning.methods.selection import SeenSelection, ThinnedSelection
from ada_lightning.methods.view import ADVANTAGES, SELECTIONS, MethodView

_FEWEST_RESPONSES = 2
"""Of a group in which a right one can stand against a wrong one."""


def overlong_errors(run: MethodView) -> Iterator[str]:
    """Responses that the reward never sees have no penalty."""
    from ada_lightning.rewards.overlong import OverlongReward  # loads verifiers

    truncated = run.value("rollout.truncated")
    if run.is_a("reward.reward", OverlongReward) and truncated in ("zero", "exclude"):
        yield (
            f"rollout.truncated = {truncated} does not grade responses that the limit cut, and OverlongReward is a "
            "penalty on those. Use rollout.truncated=grade or mask"
        )


def refill_errors(run: MethodView) -> Iterator[str]:
    """Yield one message per problem. Parts that cannot be made are left alone: they are reported by themselves."""
    refill, sampler = run.part("refill"), run.part("sampler")
    if not isinstance(refill, Refill) or not refill.is_on:
        return
    if budget := run.number("sampler.budget_per_step"):
        yield (
            f"sampler.budget_per_step = {budget} divides a step among its prompts, but refill adds prompts to it. "
            "Use sampler.budget_per_step=0, and refill.max_ratio to limit a step"
        )
    if isinstance(sampler, Sampler) and Trait.LEAVES_OUT_PROMPTS in sampler.traits:
        yield (
            f"sampler: {type(sampler).__name__} leaves prompts out and gives the others more weight to make up for it, "
            "but refill replaces what was left out. Use refill=none or another sampler"
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
            f"refill.component = {component}: {run.name('reward.reward')} has the components {', '.join(known)}. Use "
            "one of them, or refill.component='' for the reward itself"
        )


def hint_errors(run: MethodView) -> Iterator[str]:
    """A hinted group joins a step under way, and has a baseline of its own."""
    hints, sampler, refill = run.part("hints"), run.part("sampler"), run.part("refill")
    if not isinstance(hints, FollowUp) or not hints.is_on:
        return
    own = f"hints: {run.name('hints')} adds groups to a step"
    if isinstance(refill, Refill) and refill.is_on:
        yield f"{own}, and so does {run.name('refill')}. Use refill=none or hints=none"
    if budget := run.number("sampler.budget_per_step"):
        yield f"{own}, but sampler.budget_per_step = {budget} divides it. Use sampler.budget_per_step=0"
    elif isinstance(sampler, Sampler) and sampler.num_stages > 1:
        yield f"{own} under way, but {run.name('sampler')} has {sampler.num_stages} stages. Use sampler=uniform"
    elif isinstance(sampler, Sampler) and not sampler.plans_nothing:
        yield f"{own}, but {run.name('sampler')} divides it before it begins. Use sampler=uniform"
    if isinstance(sampler, Sampler) and Trait.GIVES_REWARDS in sampler.traits:
        yield (
            f"hints: whether nobody solves a prompt say graders, but {run.name('sampler')} gives the rewards itself. "
            "Use another sampler"
        )
    if run.is_a("selection", Selection) and run.has("selection", Trait.COMPARES_POOLS):
        yield (
            f"{own} that are selected by themselves, but {run.name('selection')} compares the pools of a step. Use "
            "selection=all or another"
        )
    advantage = run.kind("advantage")
    if issubclass(advantage, Advantage) and advantage.assign is not Advantage.assign:
        yield (
            f"{own} with a baseline of their own, but {advantage.__name__} compares the groups of a step. Use "
            "advantage=exact or rloo"
        )
    if run.value("environment") is not None or run.value("rollout.environment") is not None:
        yield (
            f"hints: {run.name('hints')} helps with a single turn, but an environment answers it in several. Use "
            "environment=none or hints=none"
        )


def hint_share_errors(run: MethodView) -> Iterator[str]:
    """A share of a step must have room for one hinted group."""
    hints, sampler, num_prompts = run.part("hints"), run.part("sampler"), run.number("data.prompts_per_step")
    if isinstance(hints, FollowUp) and hints.is_on and isinstance(sampler, Sampler) and num_prompts:
        yield from filter(None, [why_no_hint(hints, sampler, int(num_prompts))])


def budget_errors(run: MethodView) -> Iterator[str]:
    """A step's budget must reach for the first block of every prompt."""
    keys = ("sampler.budget_per_step", "data.prompts_per_step", "sampler.samples_per_round")
    budget, prompts, block = (run.number(key) for key in keys)
    if budget and prompts and block and 0 < budget < prompts * block:
        yield (
            f"sampler.budget_per_step = {budget} is less than data.prompts_per_step * sampler.samples_per_round = "
            f"{prompts} * {block}, so some prompts would never be drawn. Use sampler.budget_per_step={prompts * block} "
            "or more, or 0 for no limit"
        )


def history_errors(run: MethodView) -> Iterator[str]:
    """A sampler that asks how much was seen of a prompt needs an estimator that counts, and remembers as much."""
    estimator, min_seen = run.part("estimator"), getattr(run.part("sampler"), "min_seen", 0)
    if not isinstance(estimator, PassRateEstimator) or not isinstance(min_seen, int) or min_seen <= 0:
        return
    if not estimator.remembers_prompts or Trait.SHARES_EVIDENCE in estimator.traits:
        yield (
            f"sampler.min_seen = {min_seen} needs the number of responses seen for each prompt, but "
            f"{type(estimator).__name__} does not count them, so every plan would be uniform. Use sampler.min_seen=0 "
            "to trust its predictions, or estimator=window"
        )
    elif isinstance(estimator, WindowEstimator) and estimator.window < min_seen:
        yield (
            f"sampler.min_seen = {min_seen} exceeds estimator.window = {estimator.window}: a prompt with fewer "
            f"responses at its last visit would be unknown again. Use estimator.window={min_seen} or more"
        )


def first_visit_errors(run: MethodView) -> Iterator[str]:
    """Parts that treat a prompt's first visit differently need an estimator that remembers which prompts came."""
    estimator = run.part("estimator")
    if not isinstance(estimator, PassRateEstimator) or estimator.remembers_prompts:
        return
    for key, part in (("sampler", FirstVisitSampler), *((key, SeenSelection) for key in SELECTIONS)):
        if run.is_a(key, part):
            yield (
                f"{key}: {part.__name__} needs to know whether a prompt was visited before, but "
                f"{type(estimator).__name__} does not remember prompts, so every visit would count as the first. Use "
                "estimator=beta_history or another that remembers prompts"
            )


def curriculum_errors(run: MethodView) -> Iterator[str]:
    """A curriculum that chooses by history needs an estimator that keeps one."""
    curriculum, estimator = run.part("curriculum"), run.part("estimator")
    if not isinstance(estimator, PassRateEstimator) or not isinstance(curriculum, Curriculum):
        return
    if curriculum.needs_history and not estimator.remembers_prompts:
        yield (
            f"curriculum: {type(curriculum).__name__} chooses prompts by their history, but "
            f"{type(estimator).__name__} does not remember prompts. Use estimator=beta_history or estimator=ema with "
            "it, or curriculum=uniform"
        )


def auto_errors(run: MethodView) -> Iterator[str]:
    """``curriculum=auto`` compares fixed groups of one step, and counts right and wrong responses."""
    curriculum = run.part("curriculum")
    if isinstance(getattr(curriculum, "curriculum", None), AutoCurriculum):
        yield (
            f"curriculum.curriculum: {type(curriculum).__name__} leaves prompts out of a step, but AutoCurriculum "
            "compares those it has chosen with its control. Use curriculum=auto by itself"
        )
    if not isinstance(curriculum, AutoCurriculum):
        return
    sampler, refill = run.part("sampler"), run.part("refill")
    if isinstance(sampler, Sampler) and type(sampler) is not UniformSampler:
        yield (
            f"curriculum=auto compares groups of one fixed size, but sampler: {type(sampler).__name__} decides how "
            "many responses a prompt gets. Use sampler=uniform, or curriculum=expected"
        )
    if isinstance(refill, Refill) and refill.is_on:
        yield (
            "curriculum=auto compares the prompts of a step, but refill replaces those without a signal. Use "
            "refill=none, or curriculum=expected"
        )
    if (num_prompts := run.number("data.prompts_per_step")) is not None and num_prompts < FEWEST_PROMPTS:
        yield (
            f"curriculum=auto compares prompts within a step and needs at least {FEWEST_PROMPTS} of them; got "
            f"data.prompts_per_step = {num_prompts}. Use {FEWEST_PROMPTS} or more, or curriculum=uniform"
        )
    group_size = run.number("sampler.group_size")
    if group_size is not None and group_size < _FEWEST_RESPONSES:
        yield (
            f"curriculum=auto counts right against wrong responses of a prompt; got sampler.group_size = {group_size}. "
            f"Use {_FEWEST_RESPONSES} or more"
        )
    threshold = run.number("rollout.positive_threshold")
    if threshold is not None and not math.isfinite(threshold):
        yield (
            f"curriculum=auto counts right and wrong responses, but rollout.positive_threshold = {threshold} makes all "
            "of them the same. Use the reward from which a response is right"
        )
    if run.value("rollout.reproducible") is True and curriculum.cost_ratio is None:
        yield (
            "reproducible=true does not go with a cost ratio from clocks, which differ from run to run. Use "
            "curriculum.cost_ratio=1, or what an earlier run logs as curriculum/cost_ratio"
        )


def label_errors(run: MethodView) -> Iterator[str]:
    """A sampler that compares answers needs a reward that returns them, spelled without the reference."""
    reward = run.part("reward.reward")
    if reward is None or not run.has("sampler", Trait.READS_ANSWERS):
        return
    is_independent = getattr(reward, "answers_without_reference", None)
    if is_independent is True:
        return
    name = type(reward).__name__
    reason = f"{name} spells a right answer like the reference"
    if is_independent is None:
        reason = f"{name} returns no answers"
    yield (
        f"sampler: {run.name('sampler')} compares the answers that a reward finds without the reference, but {reason}. "
        "Use reward=exact_match, reward=numeric, reward=reasoning_gym, or reward=math with "
        "reward.reward.own_spelling=true. A function of your own has to return a Verdict with an answer and needs the "
        "attribute answers_without_reference = True"
    )


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
                f"{key}: {run.name(key)} takes advantages over the whole pool, but {part} = {run.name(part)} compares "
                "with the kept responses only. Use advantage=official, with advantage.normalize_std=true for GRPO's"
            )
    for part in ADVANTAGES if run.has(key, Trait.MAY_DROP_A_CLASS) else ():
        if run.has(part, Trait.NEEDS_BOTH_CLASSES):  # nothing would make up for the pull that is gone
            yield (
                f"{key}: {run.name(key)} may drop all positives or all negatives of a pool that has both, but "
                f"{part} = {run.name(part)} follows its objective only if both are kept. Use advantage=official or "
                "selection=balanced"
            )


def _pruning_errors(run: MethodView, key: str, way_out: str) -> Iterator[str]:
    """The weights of pruning are those of advantages: other terms would count what is left out as nothing."""
    prunes = run.has(key, Trait.PRUNES_RESPONSES, Trait.PRUNES_PROMPTS, Trait.LEAVES_OUT_PROMPTS)
    for name in ("kl_coef", "entropy_coef") if prunes else ():
        if value := run.number(f"loss.{name}"):
            yield (
                f"{key}: {run.name(key)} leaves out responses by chance and makes up for it in the advantages, but "
                f"loss.{name} = {value} would see only what is left. Use loss.{name}=0 or {way_out}"
            )


def _thinning_errors(run: MethodView, key: str) -> Iterator[str]:
    """Prompts whose rewards are all equal must train, and by the advantage that thinning goes by."""
    if not run.is_a(key, ThinnedSelection):
        return
    own = f"{key}: {run.name(key)}"
    if not run.is_a("advantage", HistoryBaselineAdvantage):
        yield (
            f"{own} thins out prompts whose rewards are all equal, by their advantage against history. With "
            f"{run.name('advantage')} they do not train, or not by that advantage. Use advantage=history_baseline or "
            "selection=all"
        )
    if getattr(run.kind("loss"), "needs_groups_without_signal", None) is True:
        yield (
            f"{own} weighs what it keeps by its advantage, but loss = {run.name('loss')} also trains on prompts whose "
            "rewards are all equal, by other terms. Use selection=all with this loss"
        )
    from ada_lightning.training.losses import ResponseMeanReduction, TokenMeanReduction  # loads torch

    if run.is_a("loss.reduction", ResponseMeanReduction, TokenMeanReduction):
        yield (
            f"{own} leaves out responses by chance and makes up for it in other advantages, but "
            f"loss.reduction = {run.name('loss.reduction')} would divide by what is left. Use "
            "loss/reduction=constant or loss/reduction=prompt_mean"
        )
    if not run.is_a("refill", NoRefill):
        yield (
            f"{own} thins out prompts whose rewards are all equal, but {run.name('refill')} replaces all of them. Use "
            "refill=none or selection=all"
        )


def _size_errors(run: MethodView) -> Iterator[str]:
    """Refuse a group size that has no effect."""
    sampler = run.part("sampler")
    if not (isinstance(sampler, PLANS) and run.has("selection", Trait.KEEPS_WHAT_THERE_IS)):
        return
    most = sampler.most_per_prompt
    if sampler.group_size < most:
        yield (
            f"sampler.group_size = {sampler.group_size} has no effect: {run.name('selection')} keeps all responses, "
            f"up to {most} of a prompt. Leave it out, draw fewer responses, or use a selection that chooses "
            "(selection=balanced, quantile or stratified)"
        )


METHOD_RULES: tuple[Callable[[MethodView], Iterator[str]], ...] = (
    objective_errors,
    stratum_errors,
    component_errors,
    contrast_errors,
    budget_errors,
    history_errors,
    first_visit_errors,
    class_errors,
    rule_errors,
    path_errors,
    group_errors,
    curriculum_errors,
    auto_errors,
    refill_errors,
    hint_errors,
    hint_share_errors,
    selection_errors,
)
"""Checked for every run, among other rules; a loop of your own has only these."""
