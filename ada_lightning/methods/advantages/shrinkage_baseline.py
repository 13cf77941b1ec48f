"""V0.5's baseline: history and the group's mean, mixed by how clearly they contradict each other.

Equation: ``d = max(0, (v - V)^2 - s)``, ``w = d / (d + s)``, ``baseline = w v + (1 - w) V``: V what history expects, v
    the mean of k responses, s the bound of its variance, 1/(4 k) for rewards in [0, 1] (1/k for rewards of -1 and 1).
Claim: the mean square error of the mix is about the least there is between V and v, whether V is right or not.
Assumption: rewards in [0, 1]; V knows nothing of the group.
Degenerate: an expectation that the others do not contradict counts alone, however vague it was.
"""

from __future__ import annotations

import warnings

from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import ResponseGroup


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


class ShrinkageBaselineAdvantage(Advantage):
    """``r - shrunk(mean of the other rewards, mean of the belief)``: the paper's baseline without the response itself.

    The paper's v and w contain the response that they are the baseline of, which shrinks and bends its update. Taken
    over the other kept responses the baseline is independent of it, and the expected update that of the mean pass rate.
    With ``rollout.truncated=exclude`` it is not: what the baseline is wrong by then pushes responses to end, or not to.
    A response that is kept alone is compared with the belief. Against
    :class:`~ada_lightning.methods.advantages.HistoryBaselineAdvantage`: that one weighs history by how much of it there
    is, this one by whether it holds.

    Source:
        After V0.5, arXiv:2603.10848, whose V is a value model trained beforehand; without the response: ours.
    """

    traits = frozenset({Trait.TRAINS_EQUAL_REWARDS, Trait.IS_UNCENTRED})

    def of_group(self, group: ResponseGroup) -> list[float]:
        """Return the advantages, in the reward's unit."""
        rewards = [kept.response.reward for kept in group.kept]
        if min(rewards) < 0 or max(rewards) > 1:
            warnings.warn(
                "advantage: rewards outside of [0, 1], and ShrinkageBaselineAdvantage compares their mean with a "
                "pass rate and bounds its noise by that of 0 and 1: the update stays unbiased and is noisier "
                "than with advantage=rloo",
                RuntimeWarning,
                stacklevel=2,
            )
        expected, total, num_others = group.pool.belief.mean, sum(rewards), len(rewards) - 1
        if not num_others:
            return [rewards[0] - expected]
        noise = 1 / (4 * num_others)
        return [reward - shrunk((total - reward) / num_others, expected, noise) for reward in rewards]
