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

from collections.abc import Sequence

from ada_lightning.analysis.statement import bends
from ada_lightning.analysis.statement.exact import exact_lines
from ada_lightning.analysis.statement.inexact import inexact_lines, is_mean_per_prompt
from ada_lightning.core.protocols import Advantage, Curriculum, Refill, Sampler, Selection, Trait
from ada_lightning.methods.advantages.batch_whitened import BatchWhitenedAdvantage
from ada_lightning.methods.advantages.exact import ExactAdvantage
from ada_lightning.methods.selection import AllSelection
from ada_lightning.training.losses import LossReduction, PolicyLoss
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
    epochs_per_rollout: int = 1,
) -> list[str]:
    """Say in plain lines which function of the pass rate p an update really increases.

    All figures are computed from the very objects of the run. The sampler is asked to plan, as it is again before every
    step; nothing else changes.

    Args:
        advantage: the run's estimator.
        sampler: who gets more samples, who stops.
        selection: what trains.
        loss: the policy loss.
        num_minibatches: parts of a rollout, an optimiser step each.
        epochs_per_rollout: passes over those parts.
        max_grad_norm: to which gradients are clipped.
        truncated: what a response cut by the length limit counts as, see ``rollout.truncated``.
        curriculum: which prompts a step trains on; None where all of them alike.
        token_masks: which tokens train.
        refill: whether groups without a signal are replaced; None where they are not.

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
        *bends.label_lines(sampler),
        *bends.prompt_lines(curriculum),
        *bends.refill_lines(refill),
        *bends.choice_lines(sampler, selection, loss.reduction),
        *([] if is_constant or target else bends.reduction_lines(loss.reduction)),
        *bends.reuse_lines(num_minibatches, epochs_per_rollout, loss),
        *loss.bends(),
        *(mask.bend() for mask in token_masks),
        *bends.evidence_lines(truncated),
        *bends.step_lines(max_grad_norm),
    ]
    return followed + [f"  {line}" for line in bent]


def _followed(advantage: Advantage, sampler: Sampler, selection: Selection, reduction: LossReduction) -> list[str]:
    """What the advantage follows; of one that is whitened, what it followed before."""
    if isinstance(advantage, BatchWhitenedAdvantage):
        return [*_followed(advantage.advantage, sampler, selection, reduction), f"  {advantage.bend()}"]
    if isinstance(advantage, ExactAdvantage):
        return exact_lines(advantage.objective, sampler)
    return inexact_lines(advantage, sampler, selection, reduction)
