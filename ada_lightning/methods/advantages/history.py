"""Advantages whose baseline comes from a prompt's earlier visits and the other responses of its group."""

from __future__ import annotations

import warnings

import numpy as np

from ada_lightning.core.options import option, preset, use
from ada_lightning.core.protocols import Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages.baselines import BaselineAdvantage
from ada_lightning.methods.functional import Values, expected_by_history, kept_rewards
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection


class HistoryAdvantage(BaselineAdvantage):
    """A baseline from the belief about the pass rate of before the step, and from the other kept responses.

    It does not depend on the response that it is subtracted from, so it adds noise where it is wrong and no bias.
    """

    traits = frozenset({Trait.TRAINS_EQUAL_REWARDS, Trait.IS_UNCENTRED})


@option("advantage", "history_baseline")
class HistoryBaselineAdvantage(HistoryAdvantage):
    """Reward minus the posterior mean of the pass rate given the prompt's history and the other responses of its group.

    Needs an estimator that remembers prompts or predicts them; ``estimator=beta_history`` does.

    The advantage is ``r - (k m + sum of the other rewards) / (k + n - 1)``, with m the mean and k the strength of the
    prompt's belief. The subtracted term is the posterior mean, given the belief Beta(alpha, beta) before the step (``m
    = alpha / k``, ``k = alpha + beta``) and the other kept responses. It does not depend on the response, so the
    expected update is that of the mean pass rate for every n from 1 on. With k = 0 it would be RLOO. An error of the
    baseline cancels only over all responses. With ``rollout.truncated=exclude`` it pushes responses to end, or not to.
    With a selection that chooses by class nothing undoes the choice.

    Claim: a baseline needs no group. Estimated from n - 1 others alone it adds noise: a seventh of the variance at n =
    8 and a third at n = 4. Earlier visits to the prompt take most of that away, so small groups of many prompts cost no
    more than large groups of few. Assumes an estimator that knows something of the prompt. Degenerate case: a belief
    that is wrong and sure of itself adds noise, never bias. A group of equal rewards trains, as far as it was a
    surprise.

    Rewards that are not 0 or 1: the belief is about being right. On another scale it is a poor baseline, and the update
    is still unbiased; a warning says so once.

    Source:
        Control variates and Beta-binomial shrinkage; RLOO (arXiv:2402.14740) is the case without a history, and SPO
        (arXiv:2509.13232) has the history's mean alone as the baseline of one response. What it gains: ``python -m
        research.studies.gradient_variance``.
    """

    def expected(self, group: ResponseGroup) -> Values:
        """The posterior mean without the response itself. Shape ``(G,)``."""
        rewards = kept_rewards(group)
        _warn_unless_binary(
            rewards,
            "HistoryBaselineAdvantage subtracts the chance of a right response that history lets expect: the update "
            "stays unbiased and is noisier than with advantage=rloo",
        )
        return expected_by_history(rewards, group.pool.belief)


preset(
    "advantage",
    "history_whitened",
    "batch_whitened",
    text="Reward minus what the prompt's history (and other responses of its group, if there are any) lets expect, "
    "then centred and scaled over all kept responses of the rollout (SPO, arXiv:2509.13232).",
    advantage=use(HistoryBaselineAdvantage),
)


@option("advantage", "rounded_history")
class RoundedHistoryAdvantage(HistoryAdvantage):
    """Reward minus 0 or 1, whichever history and the other responses of the group make likelier: only surprises train.

    Needs an estimator that remembers prompts or predicts them; ``estimator=beta_history`` and ``similar_prompts`` do.

    The advantage is ``r - b``; b is 1 if history and the other responses expect a reward above 1/2, otherwise 0. The
    expectation is that of :class:`HistoryBaselineAdvantage`, the posterior mean given the prompt's belief of before the
    step and the other kept responses. It does not depend on the response. So the expected update is that of the mean
    pass rate, however wrong the belief, if all drawn responses train. As with the unrounded baseline,
    ``rollout.truncated=exclude`` biases it. What rounding costs is noise per generated response: `max(p, 1-p)` of them
    train nothing.

    Claim: where training a response costs several times what drawing it does, train few and the right ones. A response
    that came out as expected weighs exactly 0 and is not computed at all; one that did not weighs 1. Per trained
    response nothing unbiased is less noisy (`1 / max(p, 1-p)^2` against `1 / (p (1-p))` with the expectation itself).
    Assumes rewards of 0 and 1 and an estimator that knows on which side of one half a prompt lies. Degenerate case: a
    baseline on the wrong side trains the common class, which costs noise and updates, never bias.

    One response per prompt is enough (``sampler.group_size=1``). On prompts it expects to fail it trains right answers
    alone, which favours those that are sampled first: watch ``train/entropy`` and pass@k together with the mean.

    Rewards that are not 0 or 1: the update stays unbiased and every response trains; a warning says so.

    Source:
        Ours. A baseline that ignores the response is free (Williams 1992); moments by enumeration in
        ``tests/unit/methods/advantages/test_history.py``.
    """

    def expected(self, group: ResponseGroup) -> Values:
        """The posterior mean without the response itself, rounded to 0 or 1. Shape ``(G,)``."""
        rewards, belief = kept_rewards(group), group.pool.belief
        _warn_unless_binary(
            rewards,
            "RoundedHistoryAdvantage rounds its baseline to 0 or 1: the update stays unbiased, and no response is left "
            "out; advantage=history_baseline is less noisy here",
        )
        others = belief.alpha + sum(rewards.tolist()) - rewards
        return (others > (belief.alpha + belief.beta + len(rewards) - 1) / 2).astype(np.float64)


RARER_CLASS = known(
    Recipe(
        name="rarer_class",
        card=Card(
            table="prompts",
            changes="one response per prompt, and only surprising ones train",
            needs="as `ada_similar`",
            cost="1 per prompt; the rarer class trains",
            fidelity="ours",
            departs=(
                "Prompts are chosen by the largest expected p (1 - p). The baseline is 0 or 1, whichever is expected. "
                "Exact in the same sense as `ada`. Noise per drawn response is higher, per trained one it is the "
                "lowest. Where wrong answers are expected it learns from right ones alone, which costs diversity."
            ),
        ),
        checked=Comparison(
            rule="the moments of the rounded baseline",
            against="enumeration",
            test="unit/methods/advantages/test_history.py::test_what_rounding_costs",
        ),
        text="""
            Draws one response per prompt, for many prompts, and trains only on the surprising ones. A response is
            surprising if it is right where prompts like this are mostly failed, or wrong where they are mostly solved.
            The baseline is the expected reward, rounded to 0 or 1, so a response as expected has the advantage 0. Use
            it where training a token costs several times what drawing one does. Why: docs/studies/gradient_variance.md.
            A step has 128 prompts of one response, as many responses as the default of 32 groups of 4; a few of them
            train.
        """,
        estimator="similar_prompts",
        curriculum="expected",
        sampler=use(UniformSampler, group_size=1),
        selection=AllSelection,
        advantage=RoundedHistoryAdvantage,
        settings={"data.prompts_per_step": 128},
    )
)


def _warn_unless_binary(rewards: Values, what: str) -> None:
    if not {0.0, 1.0}.issuperset(rewards.tolist()):
        warnings.warn(f"advantage: rewards other than 0 and 1, and {what}", RuntimeWarning, stacklevel=4)
