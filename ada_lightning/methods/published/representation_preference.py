"""Pairs ranked by a reward that is read from the policy's own hidden states.

Equation: rho = w h, with h the policy's last hidden state after a response. ``c_ij = sigmoid((rho_i - rho_j) / scale)``
    is how sure the pair's order is. The loss of a pair is ``-c log sigmoid(beta m) - (1 - c) log sigmoid(-beta m)``
    with DPO's margin m.
Claim: a model knows more of its answers than it says, so a linear reading of its states ranks responses without
    another model, those that graders do not tell apart too; a pair whose order is doubted pulls less.
Assumption: one direction in the states says the same for all prompts of a step.
Degenerate: a step whose rewards are all equal teaches no direction and trains nothing; a prompt whose states are alike
    has c = 1/2 everywhere, and its margins are pulled to 0.
Fidelity: after arXiv:2503.10093 (ACL 2025), for safety: a probe on inner states as reward, label confidence by it, a
    conservative objective over re-ordered pairs. There the probe and the pairs are of data collected beforehand. Here
    the probe is a ridge regression on the step's other prompts, so a prompt's own rewards move nothing; on-policy
    pairs, the probe's penalty and the scale are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.options import option
from ada_lightning.core.protocols import Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.published.preference import LOSS_OF_PAIRS, ComparesWithInitial
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection import AllSelection


@option("advantage", "representation_preference")
class RepresentationPreferenceAdvantage(ComparesWithInitial):
    """DPO on pairs ranked by a linear reading of the policy's hidden states, learned from the step's other prompts.

    The label of a pair is the confidence of that order (after arXiv:2503.10093). Loss and reduction as for
    ``advantage=dpo``. Loads a second model.

    The probe is a ridge regression of rewards on the hidden states of the rollout's *other* prompts, in closed form for
    each prompt. So it needs no memory, belongs to the present policy, and says of a response what others' rewards
    teach. Rewards of a prompt itself move nothing in its own pairs.

    Costs three forward passes for each kept response.

    Args:
        beta: how strongly the initial policy holds, per nat (DPO: 0.1).
        scale: difference of probed rewards at which the odds of an order are e to 1 (ours).
        ridge: penalty on the probe, as a share of the mean squared length of a centred state; larger says less (ours).

    Raises:
        ValueError: a value is not positive and finite; all in one message.
    """

    traits = frozenset({Trait.COMPARES_KEPT, Trait.TRAINS_EQUAL_REWARDS})

    def __init__(self, *, beta: float = 0.1, scale: float = 0.2, ridge: float = 1.0) -> None:
        values = {"beta": beta, "scale": scale, "ridge": ridge}
        refuse(
            *unmet(
                *(
                    (0 < value < math.inf, f"advantage.{name} must be positive and finite", value)
                    for name, value in values.items()
                )
            )
        )
        super().__init__(beta=beta)
        self.scale = scale
        self.ridge = ridge

    def assign(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """Return the derivatives of minus the loss, mean over a prompt's pairs, group by group.

        Raises:
            RuntimeError: no policy is connected.
        """
        kept = [group for group in groups if group.kept]
        rewards = [np.array([each.response.reward for each in group.kept]) for group in kept]
        if not kept or np.ptp(np.concatenate(rewards)) == 0:
            return [[0.0] * len(group.kept) for group in groups]
        probed = iter(probed_rewards([self.states(group) for group in kept], rewards, ridge=self.ridge))
        return [
            [float(value) for value in self._of_pairs(group, next(probed))] if group.kept else [] for group in groups
        ]

    def _of_pairs(self, group: ResponseGroup, probed_G: NDArray[np.float64]) -> NDArray[np.float64]:
        if len(group.kept) < 2:
            return np.zeros(len(group.kept))
        from scipy.special import expit

        ratios_G = self.log_ratios(group)
        confidence_GG = expit((probed_G[:, None] - probed_G) / self.scale)
        pulls_GG = self.beta * (confidence_GG - expit(self.beta * (ratios_G[:, None] - ratios_G)))
        advantages_G: NDArray[np.float64] = pulls_GG.sum(1) / math.comb(len(group.kept), 2)  # own with itself: 0
        return advantages_G


def probed_rewards(
    states: Sequence[NDArray[np.float64]], rewards: Sequence[NDArray[np.float64]], *, ridge: float
) -> list[NDArray[np.float64]]:
    """Return each prompt's rewards as a ridge regression on the other prompts' states expects them.

    Args:
        states: of each prompt's responses. Shape ``(G, H)``.
        rewards: of the same. Shape ``(G,)``.
        ridge: penalty, as a share of the mean squared length of a centred state.

    Returns:
        One array a prompt, shape ``(G,)``; zeros where there is no other prompt.

    Example:
        >>> seen = [np.array([[1.0], [-1.0]])] * 3
        >>> [found.round(2).tolist() for found in probed_rewards(seen, [np.array([1.0, 0.0])] * 3, ridge=0.1)]
        [[0.99, 0.01], [0.99, 0.01], [0.99, 0.01]]
    """
    ends = np.cumsum([len(each) for each in states])
    all_RH, all_R = np.concatenate(states), np.concatenate(rewards)
    found = []
    for end, own in zip(ends, states, strict=True):
        is_other_R = np.ones(len(all_R), dtype=bool)
        is_other_R[end - len(own) : end] = False
        if not is_other_R.any():
            found.append(np.zeros(len(own)))
            continue
        centre_H, mean = all_RH[is_other_R].mean(0), all_R[is_other_R].mean()
        others_RH = all_RH[is_other_R] - centre_H
        kernel_RR = others_RH @ others_RH.T
        penalty = ridge * max(float(np.trace(kernel_RR)) / len(kernel_RR), 1e-12)
        duals_R = np.linalg.solve(kernel_RR + penalty * np.eye(len(kernel_RR)), all_R[is_other_R] - mean)
        found.append(mean + (own - centre_H) @ (others_RH.T @ duals_R))
    return found


REPRESENTATION_PREFERENCE = known(
    Recipe(
        name="representation_preference",
        card=Card(
            table="update",
            changes="orders a prompt's responses by a reward read from hidden states",
            needs="rewards of the step's other prompts, a reference model",
            cost="three forward passes more per kept response",
            fidelity="after",
            departs=(
                "After arXiv:2503.10093, where probe and pairs come from data collected beforehand, for safety. Here "
                "the probe is a ridge regression on the step's other prompts, so a prompt's own rewards move nothing. "
                "All pairs of a prompt train, with the probe's confidence as label. Its penalty and scale are ours."
            ),
        ),
        checked=Comparison(
            rule="the probe is the regression on the others, in primal form",
            against="brute force",
            test=(
                "unit/methods/advantages/test_representation_preference.py::test_a_probe_is_the_ridge_regression_of_the_others"
            ),
        ),
        text="""
            Preference re-ranking with representation-based rewards (after arXiv:2503.10093). A linear probe reads a
            reward from the policy's own hidden states. All pairs of a prompt's responses are ordered by that reward,
            with its confidence as label and the initial policy as reference. The probe is learned from the rewards of
            the step's other prompts: a prompt's own rewards move nothing. Log-probabilities are summed over a response,
            not averaged: token_scale 1. Loads a second model.
        """,
        sampler=UniformSampler,
        selection=AllSelection,
        advantage=RepresentationPreferenceAdvantage,
        loss="reinforce",
        settings=LOSS_OF_PAIRS,
    )
)
