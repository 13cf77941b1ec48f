"""Only surprising responses train: the baseline is the expected reward rounded to 0 or 1.

Claim: where training a response costs several times what drawing it does, train few and the right ones. With the
baseline rounded, a response that came out as expected weighs exactly 0 and is not computed at all; one that did not
weighs 1. Per trained response nothing unbiased is less noisy (`1 / max(p, 1-p)^2` against `1 / (p (1-p))` with the
expectation itself). Assumes rewards of 0 and 1 and an estimator that knows on which side of one half a prompt lies.
Degenerate case: a baseline on the wrong side trains the common class, which costs noise and updates, never bias.
"""

from __future__ import annotations

import warnings

from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import ResponseGroup


class RoundedHistoryAdvantage(Advantage):
    """``r - b``; b is 1 if history and the other responses expect a reward above 1/2, otherwise 0.

    The expectation is that of :class:`~ada_lightning.methods.advantages.HistoryBaselineAdvantage`, the posterior mean
    given the prompt's belief of before the step and the other kept responses. It does not depend on the response, so
    the expected update is that of the mean pass rate, however wrong the belief, where all responses that were drawn
    train: as of the baseline unrounded, ``rollout.truncated=exclude`` bends it. What rounding costs is noise per
    generated response: `max(p, 1-p)` of them train nothing.

    One response per prompt is enough (``sampler.group_size=1``). On prompts it expects to fail it trains right answers
    alone, which favours those that are sampled first: watch ``train/entropy`` and pass@k beside the mean.

    Rewards that are not 0 or 1: the update stays unbiased and every response trains; a warning says so.

    Source:
        Ours. A baseline that ignores the response is free (Williams 1992); moments by enumeration in
        ``tests/unit/methods/advantages/test_history.py``.
    """

    traits = frozenset({Trait.TRAINS_EQUAL_REWARDS, Trait.IS_UNCENTRED})

    def of_group(self, group: ResponseGroup) -> list[float]:
        """Return the advantages: 0, 1 or -1 for rewards of 0 and 1."""
        rewards = [kept.response.reward for kept in group.kept]
        if not {0.0, 1.0}.issuperset(rewards):
            warnings.warn(
                "advantage: rewards other than 0 and 1, and RoundedHistoryAdvantage rounds its baseline to 0 or 1: the "
                "update stays unbiased, and no response is left out; advantage=history_baseline is less noisy here",
                RuntimeWarning,
                stacklevel=2,
            )
        total, belief = sum(rewards), group.pool.belief
        one_half = (belief.alpha + belief.beta + len(rewards) - 1) / 2
        return [reward - float(belief.alpha + total - reward > one_half) for reward in rewards]
