"""What sampler, selection, curriculum and majority votes go by: a budget, what is remembered of prompts, answers."""

from __future__ import annotations

from collections.abc import Iterator

from ada_lightning.core.protocols import Curriculum, PassRateEstimator, Trait
from ada_lightning.methods.estimators import WindowEstimator
from ada_lightning.methods.sampling import FirstVisitSampler
from ada_lightning.methods.selection import SeenSelection
from ada_lightning.methods.view import SELECTIONS, MethodView


def budget_errors(run: MethodView) -> Iterator[str]:
    """A step's budget must reach for the first block of every prompt."""
    keys = ("sampler.budget_per_step", "data.prompts_per_step", "sampler.samples_per_round")
    budget, prompts, block = (run.number(key) for key in keys)
    if budget and prompts and block and 0 < budget < prompts * block:
        yield (
            f"sampler.budget_per_step = {budget} is less than data.prompts_per_step * sampler.samples_per_round = "
            f"{prompts} * {block}: some prompts would never be drawn; use sampler.budget_per_step={prompts * block} or "
            "more, or 0 for no limit"
        )


def history_errors(run: MethodView) -> Iterator[str]:
    """A sampler that asks how much was seen of a prompt needs an estimator that counts, and remembers as much."""
    estimator, min_seen = run.part("estimator"), getattr(run.part("sampler"), "min_seen", 0)
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


def first_visit_errors(run: MethodView) -> Iterator[str]:
    """Parts that treat a prompt's first visit differently need an estimator that remembers which prompts came."""
    estimator = run.part("estimator")
    if not isinstance(estimator, PassRateEstimator) or estimator.remembers_prompts:
        return
    for key, part in (("sampler", FirstVisitSampler), *((key, SeenSelection) for key in SELECTIONS)):
        if run.is_a(key, part):
            yield (
                f"{key}: {part.__name__} goes by whether a prompt was visited before, and {type(estimator).__name__} "
                "keeps nothing by prompt: every visit would be the first; use estimator=beta_history or another that "
                "remembers prompts"
            )


def curriculum_errors(run: MethodView) -> Iterator[str]:
    """A curriculum that chooses by history needs an estimator that keeps one."""
    curriculum, estimator = run.part("curriculum"), run.part("estimator")
    if not isinstance(estimator, PassRateEstimator) or not isinstance(curriculum, Curriculum):
        return
    if curriculum.needs_history and not estimator.remembers_prompts:
        yield (
            f"curriculum: {type(curriculum).__name__} chooses by what is remembered of each prompt, and "
            f"{type(estimator).__name__} keeps nothing by prompt; use estimator=beta_history or estimator=ema with it, "
            "or curriculum=uniform"
        )


def label_errors(run: MethodView) -> Iterator[str]:
    """A sampler that compares answers needs a reward that tells them, spelled without the reference."""
    reward = run.part("reward.reward")
    if reward is None or not run.has("sampler", Trait.READS_ANSWERS):
        return
    told = getattr(reward, "answers_without_reference", None)
    if told is True:
        return
    name = type(reward).__name__
    reason = f"{name} spells an answer like the reference where it equals it" if told is False else f"{name} tells none"
    yield (
        f"sampler: {run.name('sampler')} goes by the answers that a reward finds without the reference, and "
        f"{reason}; use reward=exact_match, reward=numeric, reward=reasoning_gym, reward=math with "
        "reward.reward.own_spelling=true, or a function that returns a Verdict with an answer and has the attribute "
        "answers_without_reference = True"
    )
