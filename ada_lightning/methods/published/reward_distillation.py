"""Reward distillation on the policy's own pairs: margins are to be what rewards say they are.

Equation: minimise the mean over all pairs of a prompt's responses of ``(beta (h_i - h_j) - (r_i - r_j))^2``, with
    ``h = log pi(y) - log pi_0(y)``. Its minimum is ``pi ~ pi_0 exp(r / beta)``, the policy that RL with a KL to the
    initial policy seeks, without its partition function, which a difference does not have.
Claim: a reward tells by how much one response is better, which a preference throws away; and pairs drawn from the
    policy itself cover what it does.
Assumption: the scale of rewards means something: beta is in rewards per nat.
Degenerate: pairs of equal rewards count too and pull their margins to 0, so a group without a signal trains.
Fidelity: after arXiv:2601.08421, of which the abstract alone was to be had. The regression is that of arXiv:2405.19316
    on the policy's own responses. REBEL's (arXiv:2404.16767), whose reference is the policy of before, would be Dr.
    GRPO with another factor here. Two forward passes more for each kept response.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.published.preference import LOSS_OF_PAIRS, ComparesWithInitial
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection


@option("advantage", "reward_distillation")
class RewardDistillationAdvantage(ComparesWithInitial):
    """Margins of log-ratios to the initial policy regress on differences of rewards, over all pairs of a prompt.

    The advantage is what a response's log-probability is multiplied by in the gradient of minus the regression's loss.
    Loss and reduction as for ``advantage=dpo``. Loads a second model.

    With ``x_i = r_i - beta h_i`` it is ``4 beta / (G - 1)`` times ``x_i`` minus the group's mean of x: REINFORCE with
    the group's mean as baseline, for the reward less beta times the log-ratio. So the first update against the policy
    of just before (REBEL, whose reference follows the policy) is Dr. GRPO with another factor, and only a reference
    that stays tells the two apart. As for :class:`~ada_lightning.methods.published.preference.DpoAdvantage`,
    ``loss=reinforce`` with ``loss.importance_cap=0`` and the constant reduction with ``token_scale=1`` makes it the
    loss's own gradient.

    Args:
        beta: how strongly the initial policy holds, in rewards per nat (0.1 is ours).

    Raises:
        ValueError: ``beta`` is not positive and finite.
    """

    traits = frozenset({Trait.COMPARES_KEPT, Trait.TRAINS_EQUAL_REWARDS})

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return the derivatives; 0 of a response that is alone. Shape ``(G,)``.

        Raises:
            RuntimeError: no policy is connected.
        """
        if len(group.kept) < 2:
            return np.zeros(len(group.kept))
        rewards_G = np.array([kept.response.reward for kept in group.kept])
        left_G = rewards_G - self.beta * self.log_ratios(group)
        return 4.0 * self.beta / (len(group.kept) - 1) * (left_G - left_G.mean())


REWARD_DISTILLATION = known(
    Recipe(
        name="reward_distillation",
        card=Card(
            table="update",
            changes="fits differences of log-ratios to differences of rewards, pair by pair",
            needs="a reference model; rewards whose scale means something",
            cost="two forward passes more per kept response",
            fidelity="after",
            departs=(
                "After arXiv:2601.08421, of which only the abstract was available. All pairs of a prompt count, and "
                "log-ratios are to the initial policy. The regression is that of arXiv:2405.19316, on the policy's own "
                "responses. REBEL's reference is the previous policy; here it would be Dr. GRPO with another factor."
            ),
        ),
        checked=Comparison(
            rule="the gradient of the regression over pairs, by autograd",
            against="brute force",
            test=(
                "unit/methods/advantages/test_preference.py::test_the_update_is_the_gradient_of_the_loss_of_pairs_however_it_is_split"
            ),
        ),
        text="""
            Reward distillation on the policy's own responses (after arXiv:2601.08421, the on-policy schemes next to
            DPO). The difference of two log-ratios to the initial policy, times beta, regresses on the difference of
            their rewards. The update is the gradient of that regression, as a mean over prompts. Equal rewards count:
            they hold responses of a prompt together. Log-probabilities are summed over a response, not averaged:
            token_scale 1. Loads a second model.
        """,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=RewardDistillationAdvantage,
        loss="reinforce",
        settings=LOSS_OF_PAIRS,
    )
)
