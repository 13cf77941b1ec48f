"""Learning from preferences between a prompt's own responses: DPO and IPO as weights of a policy gradient.

Equation: minimise the mean over a prompt's pairs (right w, wrong l) of a loss of the margin ``m = h_w - h_l``. Here ``h
    = log pi(y) - log pi_0(y)``, and pi_0 is the initial policy. The loss is ``-log sigmoid(beta m)`` (DPO) or ``(m -
    1/(2 beta))^2`` (IPO).
Claim: pairs drawn from the policy itself cover what it does, which pairs of another one need not.
Assumption: right answers are preferred to wrong ones, and equally right ones to none.
Degenerate: a prompt with one class alone has no pair; one whose margins are large has next to no DPO gradient left.
Fidelity: faithful. The pairs are the policy's own, by reward. Both are written as advantages with ``loss=reinforce``,
    whose update is the very gradient of the loss of pairs, with one update per rollout. Two forward passes more for
    each kept response.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Advantage, LogRatios, States, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling import BalanceSampler
from ada_lightning.methods.selection import BalancedSelection

LOSS_OF_PAIRS = {"loss.importance_cap": 0.0, "loss.reduction.token_scale": 1}
"""Settings with which ``loss=reinforce`` has the gradient of a loss of pairs. Token scale 1:
log-probabilities are summed over a response, not averaged."""


class ComparesWithInitial(Advantage):
    """An advantage that asks how far the policy has moved from the initial one.

    Args:
        beta: how strongly the initial policy holds.

    Raises:
        ValueError: ``beta`` is not positive and finite.
    """

    needs_reference = True

    def __init__(self, *, beta: float = 0.1) -> None:
        if not 0 < beta < math.inf:
            raise ValueError(f"advantage.beta must be positive and finite; got {beta}")
        self.beta = beta
        self._asked: tuple[LogRatios, States] | None = None

    def connect(self, log_ratios: LogRatios, states: States) -> None:
        """Remember whom to ask about the policy and the initial one."""
        self._asked = log_ratios, states

    def log_ratios(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Log-probability of every kept response, less that under the initial policy; nats. Shape ``(G,)``.

        Raises:
            RuntimeError: no policy is connected.
        """
        return np.asarray(self._ask()[0](group), dtype=np.float64)

    def states(self, group: ResponseGroup) -> NDArray[np.float64]:
        """The policy's last hidden state after every kept response. Shape ``(G, H)``.

        Raises:
            RuntimeError: no policy is connected.
        """
        return np.asarray(self._ask()[1](group), dtype=np.float64)

    def _ask(self) -> tuple[LogRatios, States]:
        if self._asked is None:
            raise RuntimeError(f"{type(self).__name__} compares with the initial policy, and none is connected")
        return self._asked


class PreferenceAdvantage(ComparesWithInitial):
    """What each response's log-probability is multiplied by in the gradient of minus a loss of pairs.

    The gradient of a loss of margins is ``sum over responses of dloss/dh grad log pi``. These derivatives, taken at the
    policy that drew the responses, are the advantages. So ``loss=reinforce`` with ``loss.importance_cap=0`` and the
    constant reduction with ``token_scale=1`` has the very gradient of the loss of pairs, averaged over prompts, however
    a batch is split. Further updates with the same rollout keep the derivatives of before the first.

    Every right response is paired with every wrong one that is kept, positives and negatives by
    ``rollout.positive_threshold``. Sampling until both classes are there (``sampler=balance``) is what gives pairs.

    Args:
        beta: how strongly the initial policy holds.

    Raises:
        ValueError: ``beta`` is not positive and finite.
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    def pull(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return minus the derivative of the loss at each margin."""
        raise NotImplementedError(f"{type(self).__name__} needs a method pull(margins)")

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return the derivatives, 0 where there is no pair. Shape ``(G,)``.

        Raises:
            RuntimeError: no policy is connected.
        """
        is_right_G = np.array([kept.response.is_positive for kept in group.kept])
        advantages_G = np.zeros(len(group.kept))
        if is_right_G.all() or not is_right_G.any():
            return advantages_G
        ratios_G = self.log_ratios(group)
        pulls_RW = self.pull(ratios_G[is_right_G][:, None] - ratios_G[~is_right_G])
        advantages_G[is_right_G] = pulls_RW.sum(1) / pulls_RW.size
        advantages_G[~is_right_G] = -pulls_RW.sum(0) / pulls_RW.size
        return advantages_G


@option("advantage", "dpo")
class DpoAdvantage(PreferenceAdvantage):
    """DPO on pairs of a prompt's own right and wrong responses (arXiv:2305.18290). Loads a second model.

    Each pair weighs ``beta sigmoid(-beta m)``. With ``loss=reinforce loss.importance_cap=0
    loss/reduction=constant loss.reduction.token_scale=1`` the update is the loss's own gradient.

    Args:
        beta: how strongly the initial policy holds, per nat (paper: 0.1).

    Source:
        DPO, arXiv:2305.18290, eq. 7 and the gradient below it; on-policy pairs, and what they cover: arXiv:2406.01462.
    """

    def pull(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Fades as a pair is told apart."""
        from scipy.special import expit

        pulls: NDArray[np.float64] = self.beta * expit(-self.beta * margins)
        return pulls


@option("advantage", "ipo")
class IpoAdvantage(PreferenceAdvantage):
    """IPO on pairs of a prompt's own right and wrong responses (arXiv:2310.12036); otherwise as ``advantage=dpo``.

    Each pair weighs ``2 (1 / (2 beta) - m)``: towards a margin, and back from beyond it.

    Args:
        beta: how strongly the initial policy holds, per nat (paper: 0.1 to 1).

    Source:
        IPO, arXiv:2310.12036, eq. 17; with sums over tokens, as there.
    """

    def pull(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Falls through 0 at the margin that is wanted."""
        return 1.0 / self.beta - 2.0 * margins


_ON_OWN_PAIRS = (
    "on the policy's own pairs. Each prompt is sampled until it has right and wrong responses. Every right one is "
    "preferred to every wrong one, and the initial policy is the reference. The update is the gradient of the loss of "
    "pairs, mean over prompts; those without a pair count in it. Log-probabilities are summed over a response, not "
    "averaged: token_scale 1. Loads a second model."
)
DPO = known(
    Recipe(
        name="dpo",
        card=Card(
            table="update",
            changes="prefers every right response of a prompt to every wrong one",
            needs="right and wrong responses (`sampler=balance`), a reference model",
            cost="two forward passes more per kept response",
            fidelity="faithful",
            departs=(
                "Margins are relative to the initial policy. Pairs are the policy's own, by reward. They are written "
                "as advantages with `loss=reinforce`. With one update per rollout, its update is the gradient of the "
                "loss of pairs itself."
            ),
            also=("ipo",),
        ),
        checked=Comparison(
            rule="the gradient of the loss of pairs, by autograd",
            against="brute force",
            test=(
                "unit/methods/advantages/test_preference.py::test_the_update_is_the_gradient_of_the_loss_of_pairs_however_it_is_split"
            ),
            also=("ipo",),
        ),
        text=f"DPO (arXiv:2305.18290) {_ON_OWN_PAIRS}",
        sampler=BalanceSampler,
        selection=BalancedSelection,
        advantage=DpoAdvantage,
        loss="reinforce",
        settings=LOSS_OF_PAIRS,
    )
)
IPO = known(DPO.with_(name="ipo", text=f"IPO (arXiv:2310.12036) {_ON_OWN_PAIRS}", advantage=IpoAdvantage))
