"""The statement: what the update follows, then everything that bends it.

Example:
    >>> from ada_lightning.methods.advantages import LeaveOneOutAdvantage
    >>> from ada_lightning.training.losses import ClippedPolicyLoss, ConstantReduction
    >>> from ada_lightning.methods.sampling import UniformSampler
    >>> from ada_lightning.methods.selection import AllSelection
    >>> parts = {"sampler": UniformSampler(group_size=4), "selection": AllSelection()}
    >>> parts |= {"loss": ClippedPolicyLoss(reduction=ConstantReduction(token_scale=32))}
    >>> settings = {"num_minibatches": 1, "max_grad_norm": 1.0, "truncated": "grade"}
    >>> lines = describe_update(advantage=LeaveOneOutAdvantage(), **parts, **settings)
    >>> lines[0], lines[-1]
    ('update: exact for f(p) = p', '  policy.max_grad_norm = 1 can shorten a step, not turn it')
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ada_lightning.analysis.statement.exact import exact_lines
from ada_lightning.analysis.statement.inexact import inexact_lines, is_mean_per_prompt
from ada_lightning.analysis.statement.staleness import staleness_lines
from ada_lightning.core.protocols import Advantage, Curriculum, Refill, Sampler, Selection, Trait
from ada_lightning.methods.advantages.batch_whitened import BatchWhitenedAdvantage
from ada_lightning.methods.advantages.exact import ExactAdvantage
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.losses import ConstantReduction, LossReduction, PolicyLoss, PromptMeanReduction
from ada_lightning.training.token_masks import TokenMask

_OF_TRUNCATED = {
    "mask": "rollout.truncated=mask counts responses that do not train: then no pass rate is followed exactly",
    "exclude": "rollout.truncated=exclude: p is the pass rate among responses that end by themselves",
}
"""What is left out of the pass rate, or of the update only."""


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
    epochs_per_rollout: int = 1,
    max_staleness: int = 0,
) -> list[str]:
    """Say in plain lines which function of the pass rate p an update really increases.

    All figures are computed from the very objects of the run. The sampler is asked to plan, as it is again before every
    step; nothing else changes.

    Parts and settings are those of the configuration by the same names; ``truncated`` is ``rollout.truncated``,
    ``max_staleness`` is ``rollout.max_staleness``.

    Returns:
        A first line that starts with ``update:``, and indented lines below it.
    """
    prunes_prompts = Trait.PRUNES_PROMPTS in selection.traits
    counted = AllSelection() if prunes_prompts else selection  # of what trains, whole prompts have their size
    is_constant = not isinstance(advantage, ExactAdvantage) and is_mean_per_prompt(sampler, counted, loss.reduction)
    followed = target = loss.follows()
    if not target:
        # What prunes at random and weighs the rest has the expected update of what it pruned from.
        whole = AllSelection() if prunes_prompts or Trait.PRUNES_RESPONSES in selection.traits else selection
        followed = _followed(advantage, sampler, whole, loss.reduction)
    bent = [
        *_source_lines(sampler, curriculum, refill),
        *staleness_lines(max_staleness, advantage, loss, num_updates=num_minibatches * epochs_per_rollout),
        *choice_lines(sampler, selection, loss.reduction),
        "" if is_constant or target else loss.reduction.bend(),
        _reuse(num_minibatches, epochs_per_rollout, loss),
        *loss.bends(),
        *(mask.bend() for mask in token_masks),
        _OF_TRUNCATED.get(truncated, ""),
        f"policy.max_grad_norm = {max_grad_norm:g} can shorten a step, not turn it" if max_grad_norm < math.inf else "",
    ]
    return followed + [f"  {line}" for line in bent if line]


def choice_lines(sampler: Sampler, selection: Selection, reduction: LossReduction) -> Iterator[str]:
    """What sampler and selection say of themselves, and what a denominator makes of pruning."""
    yield from (line for line in (sampler.bend(), selection.bend()) if line)
    traits = sampler.traits | selection.traits | selection.within.traits
    prunes_responses = bool(traits & {Trait.PRUNES_RESPONSES, Trait.LEAVES_OUT_PROMPTS})
    # A prompt that is left out as a whole still counts among the prompts of a mean over prompts.
    undone = ConstantReduction if prunes_responses else ConstantReduction | PromptMeanReduction
    if (prunes_responses or Trait.PRUNES_PROMPTS in traits) and not isinstance(reduction, undone):
        yield (
            f"{type(reduction).__name__} divides by what pruning left: the weights of pruning no longer undo it; "
            "loss/reduction=constant does not"
        )


def _source_lines(sampler: Sampler, curriculum: Curriculum | None, refill: Refill | None) -> Iterator[str]:
    """Rewards that are not the graders', prompts that come more often than others, groups that are replaced."""
    if Trait.GIVES_REWARDS in sampler.traits:
        yield (
            f"{type(sampler).__name__} gives the rewards itself: p is the rate of its labels, whatever a reference says"
        )
    if curriculum is not None:
        yield curriculum.bend()
    if refill is not None:
        yield refill.bend()


def _reuse(num_minibatches: int, epochs_per_rollout: int, loss: PolicyLoss) -> str:
    """Updates with responses of an earlier policy."""
    keys = (("data.num_minibatches", num_minibatches), ("data.epochs_per_rollout", epochs_per_rollout))
    named = " and ".join(f"{key} = {value}" for key, value in keys if value > 1)
    return f"{named}: only the first update of a step is on-policy; {loss.reuse_bend()}" if named else ""


def _followed(advantage: Advantage, sampler: Sampler, selection: Selection, reduction: LossReduction) -> list[str]:
    """What the advantage follows; of one that is whitened, what it followed before."""
    if isinstance(advantage, BatchWhitenedAdvantage):
        return [*_followed(advantage.advantage, sampler, selection, reduction), f"  {advantage.bend()}"]
    if isinstance(advantage, ExactAdvantage):
        return exact_lines(advantage.objective, sampler)
    return inexact_lines(advantage, sampler, selection, reduction)
