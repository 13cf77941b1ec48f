"""MaxRL (Maximum Likelihood Reinforcement Learning, arXiv:2602.02710): reward over the group's mean, minus 1.

Claim: maximises log p as far as n responses can see, at no cost; RL follows only the first term of that series. Assumes
rewards of 0 and 1 and a group that is all of its pool. Degenerate case: a mean of 0 (or below) gives 0, so that its
prompts are lost and the series ends one term earlier than without a baseline.
"""

from __future__ import annotations

from ada_lightning.core.options import option, use
from ada_lightning.core.protocols import Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages.baselines import BaselineAdvantage
from ada_lightning.methods.functional import Values, common_mean, kept_rewards
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection


@option("advantage", "max_rl")
class MaxRlAdvantage(BaselineAdvantage):
    """MaxRL: reward over the group's mean, minus 1; 0 where the mean is not positive. Goes with ``selection=all``.

    It is ``(r - mean) / mean`` with the mean of the kept group.

    With n responses for every prompt, all of them kept, take the mean over a group of advantage times score. Its
    expectation is ``(1 - (1 - p)^(n - 1)) / p`` times grad p. That is exact for this part of log p, and the same
    expectation as ``advantage=exact objective=log``. With ragged groups each follows the series of its own n. Groups
    without signal have advantages of 0. Selections that change the shares of the classes change the mean and with it
    the objective: with as many positives as negatives nothing of the 1/p is left.

    Source:
        arXiv:2602.02710; prime-rl's ``max_rl``. The degenerate case as there: 0 where the mean is not positive.
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    def expected(self, group: ResponseGroup) -> float | Values:
        """Mean of the kept group; where it is not positive the rewards themselves, which leaves no advantage."""
        rewards = kept_rewards(group)
        return common_mean(rewards) if rewards.mean() > 0 else rewards

    def scale(self, group: ResponseGroup) -> float:
        """The same mean."""
        mean = float(kept_rewards(group).mean())
        return mean if mean > 0 else 1.0


MAX_RL = known(
    Recipe(
        name="max_rl",
        card=Card(
            table="update",
            changes="advantage (r - mean) / mean",
            needs="rewards 0 and 1",
            fidelity="after",
            departs=(
                "The advantage is 0 where nothing was right. So it is exact for log p as far as n responses can see."
            ),
        ),
        checked=Comparison(
            rule="it follows log p as far as a group can see",
            against="enumeration",
            test=("unit/methods/advantages/test_group_rules.py::test_max_rl_follows_log_p_as_far_as_the_group_can_see"),
        ),
        text="""
            MaxRL (arXiv:2602.02710): a fixed group, with the reward's difference from the mean divided by that mean. It
            follows log p as far as the group can see.
        """,
        sampler=use(UniformSampler, group_size=8),
        selection=AllSelection,
        advantage=MaxRlAdvantage,
        loss="reinforce",
    )
)
