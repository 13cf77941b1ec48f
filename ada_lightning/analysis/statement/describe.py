"""The statement: what the update increases, what changes that, and what else to know.

Example:
    >>> from ada_lightning.methods.advantages import LeaveOneOutAdvantage
    >>> from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction
    >>> from ada_lightning.methods.sampling import UniformSampler
    >>> from ada_lightning.methods.selection import AllSelection
    >>> parts = {"sampler": UniformSampler(group_size=4), "selection": AllSelection()}
    >>> parts |= {"loss": ClippedPolicyLoss(reduction=ConstantReduction(token_scale=32))}
    >>> settings = {"num_minibatches": 1, "max_grad_norm": 1.0, "truncated": "grade"}
    >>> lines = describe_update(advantage=LeaveOneOutAdvantage(), **parts, **settings)
    >>> lines[0]
    'update: increases the mean over prompts of f(p) = p (p: pass rate), exactly'
    >>> lines[-1]
    '  - policy.max_grad_norm = 1 can shorten an update, but does not change its direction'
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ada_lightning.analysis.statement.followed import followed, no_longer_exact
from ada_lightning.analysis.statement.inexact import has_fixed_numbers
from ada_lightning.analysis.statement.rules import (
    PASS_RATES,
    draws_anew,
    draws_at_once,
    draws_equal,
    of_whole_pools,
    rules_by_pass_rate,
)
from ada_lightning.analysis.statement.staleness import staleness_lines
from ada_lightning.core.protocols import Advantage, Curriculum, FollowUp, Refill, Sampler, Selection, Trait
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    PoolMeanAdvantage,
    WeightedLeaveOneOutAdvantage,
)
from ada_lightning.methods.pass_rates import LeaveOneOutRate
from ada_lightning.methods.published.raft import AcceptedAdvantage
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.losses import (
    ConstantReduction,
    LossReduction,
    PolicyGradientLoss,
    PolicyLoss,
    PromptMeanReduction,
)
from ada_lightning.training.token_masks import TokenMask


def describe_update(
    *,
    advantage: Advantage,
    sampler: Sampler,
    selection: Selection,
    loss: PolicyLoss,
    num_minibatches: int,
    max_grad_norm: float,
    truncated: str,
    curriculum: Curriculum | None = None,
    token_masks: Sequence[TokenMask] = (),
    refill: Refill | None = None,
    hints: FollowUp | None = None,
    epochs_per_rollout: int = 1,
    max_staleness: int = 0,
    corrects_engine: bool = True,
) -> list[str]:
    """Say in plain lines which function of the pass rate p an update really increases.

    All figures are computed from the parts of the run themselves. The sampler is asked to plan, as before every step;
    nothing else changes.

    Parts and settings are those of the configuration with the same names; ``truncated`` is ``rollout.truncated``,
    ``max_staleness`` is ``rollout.max_staleness``. ``corrects_engine`` is False for a loop of your own, which takes
    care of the engine's probabilities itself.

    Returns:
        A first line that starts with ``update:``, and indented lines below it: its figures, what changes it, and what
        else to know.
    """
    kept = of_whole_pools(selection, advantage, sampler)
    is_equal = draws_equal(sampler, selection)
    # A mean over a number fixed beforehand is a factor of each prompt; of all alike where the sum was not one of n.
    is_mean = isinstance(loss.reduction, PromptMeanReduction) and has_fixed_numbers(sampler, kept)
    is_fixed = truncated not in ("exclude", "mask") and is_mean
    is_constant = is_fixed and (is_equal or not isinstance(advantage, ExactAdvantage | WeightedLeaveOneOutAdvantage))
    num_updates, target = num_minibatches * epochs_per_rollout, loss.follows()
    is_centred = _is_centred(advantage, sampler, kept)
    of_engine = loss.engine_caveat() if isinstance(loss, PolicyGradientLoss) else ""
    # What is right and ends is all that it follows then; but drawn anew, responses that end are as many as before.
    is_of_accepted = isinstance(advantage, AcceptedAdvantage) and not draws_anew(sampler)
    of_truncated, truncated_changes = _truncated_line(truncated, advantage, sampler)
    changes = [
        *staleness_lines(max_staleness, advantage, loss, num_updates=num_updates, is_centred=is_centred),
        "" if is_constant or target else loss.reduction.caveat(),
        _pruned_ratio(sampler, selection, loss.reduction),
        _reuse(num_minibatches, epochs_per_rollout, loss),
        *(line for line in loss.caveats() if line != of_engine),
        *(mask.caveat() for mask in token_masks),
        of_truncated if truncated_changes else "",
        "" if is_centred or truncated != "exclude" or is_of_accepted else _PUSHES_TO_END,
        _replaced(refill, advantage),
    ]
    lines = target or followed(advantage, sampler, kept, is_equal=is_equal, is_mean=is_mean)
    if any(changes) or sampler.budget_per_step:
        lines = no_longer_exact(lines)
    is_scaled = ", exactly" in lines[0] and is_equal and isinstance(kept, AllSelection)
    other = [
        _scale(advantage, loss.reduction, sampler) if is_scaled else "",
        *_source_lines(sampler, curriculum, refill, hints),
        *(line for line in (sampler.caveat(), selection.caveat()) if line),
        of_engine if corrects_engine else "",
        "" if truncated_changes else of_truncated,
        _clipped(max_grad_norm),
    ]
    return [*lines, *_listed("this changes it:", changes), *_listed("also:", other)]


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    """Return a title and the lines that say something, each as an item; nothing where there is none."""
    items = [f"  - {line}" for line in lines if line]
    return [f"  {title}", *items] if items else []


def _scale(advantage: Advantage, reduction: LossReduction, sampler: Sampler) -> str:
    """Say by what number the update is larger than the first line says, where all prompts get as many responses."""
    rule = rules_by_pass_rate(sampler, PASS_RATES)[0]
    size = 1 if rule is None else rule.n_max
    is_divided = isinstance(advantage, ExactAdvantage | WeightedLeaveOneOutAdvantage)
    if isinstance(reduction, ConstantReduction) and not is_divided:
        return f"loss/reduction=constant sums over a prompt's {size} responses: the update is {size} times as large"
    if isinstance(reduction, PromptMeanReduction) and is_divided:
        return f"loss/reduction=prompt_mean divides by {size} responses once more: the update is 1/{size} as large"
    return ""


def _clipped(max_grad_norm: float) -> str:
    """Say what the bound of the gradient's norm does."""
    if max_grad_norm == math.inf:
        return ""
    return f"policy.max_grad_norm = {max_grad_norm:g} can shorten an update, but does not change its direction"


_PUSHES_TO_END = (
    "rollout.truncated=exclude: a baseline that is wrong or missing pushes responses to end by themselves, or not to; "
    "advantage=rloo does not push, and neither does rollout.truncated=grade"
)


def _is_centred(advantage: Advantage, sampler: Sampler, kept: Selection) -> bool:
    """Whether the advantages of what a prompt keeps add up to 0, whatever its pool."""
    if isinstance(advantage, WeightedLeaveOneOutAdvantage) and not isinstance(advantage.baseline, LeaveOneOutRate):
        return draws_at_once(sampler)
    is_of_pool = isinstance(advantage, PoolMeanAdvantage) and not isinstance(kept, AllSelection)
    return Trait.IS_UNCENTRED not in advantage.traits and not is_of_pool


def _truncated_line(truncated: str, advantage: Advantage, sampler: Sampler) -> tuple[str, bool]:
    """What is left out of the pass rate, or of the update only; and whether that changes what is followed."""
    key, anew = f"rollout.truncated={truncated}", truncated == "exclude" and draws_anew(sampler)
    if truncated not in ("mask", "exclude"):
        return "", False
    if isinstance(advantage, AcceptedAdvantage) and not anew:
        return f"{key}: p is the rate of responses that are right and end by themselves", False
    if truncated == "mask":
        return f"{key}: responses that do not train still count, so no pass rate is followed exactly", True
    among = f"{key}: p is the pass rate among responses that end by themselves"
    if anew:
        return f"{among}; a prompt that runs out of draws follows it as far as its responses can see", False
    compares = Trait.COMPARES_DRAWN in advantage.traits or Trait.COMPARES_KEPT in advantage.traits
    return (
        f"{among}; the others are not drawn anew, so a prompt has fewer responses and weighs by their number"
        f"{', and follows nothing if fewer than two are left' if compares else ''}"
    ), True


def _pruned_ratio(sampler: Sampler, selection: Selection, reduction: LossReduction) -> str:
    """What a denominator makes of pruning."""
    traits = sampler.traits | selection.traits | selection.within.traits
    prunes_responses, prompts = Trait.PRUNES_RESPONSES in traits, {Trait.PRUNES_PROMPTS, Trait.LEAVES_OUT_PROMPTS}
    # A prompt that is left out as a whole still counts among the prompts of a mean over prompts.
    undone = ConstantReduction if prunes_responses else ConstantReduction | PromptMeanReduction
    if not (prunes_responses or traits & prompts) or isinstance(reduction, undone):
        return ""
    return (
        f"{type(reduction).__name__} divides by what pruning left, so the weights of pruning no longer undo it; "
        "loss/reduction=constant does not"
    )


def _replaced(refill: Refill | None, advantage: Advantage) -> str:
    """What is lost with groups that are replaced because their rewards are equal."""
    if refill is None or not refill.is_on or Trait.TRAINS_EQUAL_REWARDS not in advantage.traits:
        return ""
    return (
        f"refill: groups without a signal are replaced, although {type(advantage).__name__} would train on them: what "
        "it makes of equal rewards is missing"
    )


def _source_lines(
    sampler: Sampler, curriculum: Curriculum | None, refill: Refill | None, hints: FollowUp | None
) -> Iterator[str]:
    """Rewards that are not the graders', prompts that come more often than others, groups replaced or added."""
    if Trait.GIVES_REWARDS in sampler.traits:
        yield (f"{type(sampler).__name__} gives the rewards itself: p is the rate of its labels, which may be wrong")
    if curriculum is not None:
        yield curriculum.caveat()
    if refill is not None:
        yield refill.caveat()
    if hints is not None:
        yield hints.caveat()


def _reuse(num_minibatches: int, epochs_per_rollout: int, loss: PolicyLoss) -> str:
    """Updates with responses of an earlier policy."""
    keys = (("data.num_minibatches", num_minibatches), ("data.epochs_per_rollout", epochs_per_rollout))
    named = " and ".join(f"{key} = {value}" for key, value in keys if value > 1)
    return f"{named}: only the first update of a step is on-policy; {loss.reuse_caveat()}" if named else ""
