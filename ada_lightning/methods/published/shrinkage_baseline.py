"""V0.5's baseline: history and the group's mean, weighted by how clearly they contradict each other.

Equation: ``d = max(0, (v - V)^2 - s)``, ``w = d / (d + s)``, ``baseline = w v + (1 - w) V``. V is what history expects,
    and v the mean of k responses. s is the bound of its variance, 1/(4 k) for rewards in [0, 1] (1/k for rewards of -1
    and 1).
Claim: the mean square error of this baseline is about the least there is between V and v, whether V is right or not.
Assumption: rewards in [0, 1]; V knows nothing of the group.
Degenerate: an expectation that the others do not contradict counts alone, however vague it was.
Fidelity: after V0.5, arXiv:2603.10848. The baseline is of the *other* responses, so the update is unbiased; history of
    this run stands for the paper's pretrained value model; the number of responses is fixed, where the paper draws on
    from 4 to 16.
"""

from __future__ import annotations

import warnings

import numpy as np

from ada_lightning.core.options import option
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages.history import HistoryAdvantage
from ada_lightning.methods.functional import Values, kept_rewards
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection


def shrunk(mean: float, expected: float, noise: float) -> float:
    """Return a mean, shrunk towards what was expected as far as its noise explains the difference.

    Args:
        mean: of the responses.
        expected: before them.
        noise: variance of the mean, or a bound of it.

    Example:
        >>> shrunk(-0.5, 0.5, 0.25), shrunk(-0.5, -0.2, 0.25)  # rewards 1, -1, -1, -1
        (-0.25, -0.2)
    """
    distance = max(0.0, (mean - expected) ** 2 - noise)
    weight = distance / (distance + noise)
    return weight * mean + (1 - weight) * expected


@option("advantage", "shrinkage_baseline")
class ShrinkageBaselineAdvantage(HistoryAdvantage):
    """Reward minus a baseline between what history expects and the mean of the other responses.

    It is ``r - shrunk(mean of the other rewards, mean of the belief)`` (after V0.5, arXiv:2603.10848). Needs an
    estimator that remembers prompts or predicts them.

    The paper's v and w contain the response that they are the baseline of, which shrinks and biases its update. Taken
    over the other kept responses the baseline is independent of it, and the expected update that of the mean pass rate.
    With ``rollout.truncated=exclude`` it is not: what the baseline is wrong by then pushes responses to end, or not to.
    A response that is kept alone is compared with the belief. Against
    :class:`~ada_lightning.methods.advantages.HistoryBaselineAdvantage`: that one weighs history by how much of it there
    is, this one by whether it holds.

    Source:
        After V0.5, arXiv:2603.10848, whose V is a value model trained beforehand; without the response: ours.
    """

    def expected(self, group: ResponseGroup) -> Values:
        """The mean of the others, shrunk towards that of the belief. Shape ``(G,)``."""
        rewards = kept_rewards(group).tolist()
        if min(rewards) < 0 or max(rewards) > 1:
            warnings.warn(
                "advantage: rewards outside of [0, 1], and ShrinkageBaselineAdvantage compares their mean with a "
                "pass rate and bounds its noise by that of 0 and 1: the update stays unbiased and is noisier "
                "than with advantage=rloo",
                RuntimeWarning,
                stacklevel=3,
            )
        expected, total, num_others = group.pool.belief.mean, sum(rewards), len(rewards) - 1
        if not num_others:
            return np.array([expected])
        noise = 1 / (4 * num_others)
        return np.array([shrunk((total - reward) / num_others, expected, noise) for reward in rewards])


SHRINKAGE_BASELINE = known(
    Recipe(
        name="shrinkage_baseline",
        card=Card(
            table="update",
            changes="history is the baseline unless the other responses contradict it",
            needs="history",
            fidelity="after",
            departs=(
                "After V0.5 (arXiv:2603.10848). The baseline is over the *other* responses, so it is unbiased. History "
                "takes the place of a pretrained value model. The number of responses is fixed."
            ),
        ),
        checked=Comparison(
            rule="V0.5's numbers, and that it is unbiased without the response itself",
            against="enumeration",
            test=(
                "unit/methods/advantages/test_shrinkage_baseline.py::test_whatever_is_believed_the_update_is_that_of_the_mean_pass_rate"
            ),
        ),
        text="""
            V0.5's baseline (after arXiv:2603.10848) in an unbiased form. Groups have 4 responses. The baseline of each
            is what history expects, unless the other three contradict it. History is that of this run; the paper has a
            pretrained value model. The paper also draws on from 4 to 16 responses while that pays, which biases the
            mean of a pool. Here the number is fixed.
        """,
        estimator="beta_history",
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=ShrinkageBaselineAdvantage,
    )
)
