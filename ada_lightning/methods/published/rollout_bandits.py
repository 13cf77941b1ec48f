"""Contextual rollout bandits: learns which responses are worth training on from what training on them did.

Source: after CBS, arXiv:2602.08499 (the payment); LinUCB: Li et al. 2010, arXiv:1003.0146, Algorithm 1 with one shared
    parameter vector; fading: D-LinUCB, arXiv:1909.09146.
Fidelity: after the paper and not the paper: it has no public code, and does not state its features, network,
    exploration, or any constant. The paper scores by a small network; arms here are linear. Every default here is ours.
    There is no replay of earlier responses (its other half): all arms are responses of this step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option, use
from ada_lightning.core.protocols import Selection, Trait
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.advantages import PoolMeanAdvantage
from ada_lightning.methods.checked import Check, Checked, at_least
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.uniform import UniformSampler
from ada_lightning.methods.selection.magnitude import pool_advantages
from ada_lightning.methods.selection.weights import with_selection_weights

CONTEXTS = (
    "constant",
    "advantage",
    "size of the advantage",
    "share of positives in the pool",
    "signal of the pool",
    "share of its class in the pool",
    "surprise to the belief",
    "length",
    "truncated",
    "surprisal",
)
"""Names of the columns that :func:`response_contexts` returns."""
_LARGEST_ADVANTAGE = 3.0
_LARGEST_SURPRISAL = 4.0
"""Nats per token."""
REWARD = "rollout/reward_first_round"
ENTROPY = "train/entropy"


def response_contexts(pool: ResponsePool) -> NDArray[np.float64]:
    """Describe every response of a pool by numbers in [-1, 1], the same ones for rewards and lengths of any unit.

    Advantage and its size are over the pool's standard deviation, cut at 3. The pool's signal is ``4 p (1 - p)``. The
    surprise is 1 or 0 for the class minus the pass rate believed before the step. The length is relative to the pool's
    mean, cut at twice that. Surprisal is the engine's mean negative log-probability per token, cut at 4 nats; its mean
    over a policy's responses is its entropy.

    Returns:
        Shape ``(N, 10)``, rows in launch order; columns as in :data:`CONTEXTS`.
    """
    rate = pool.num_positive / max(pool.num_sampled, 1)
    mean_length = sum(response.num_tokens for response in pool.responses) / max(pool.num_sampled, 1)
    rows = []
    for response, advantage in zip(pool.responses, pool_advantages(pool, normalize_std=True), strict=True):
        scaled = max(-1.0, min(1.0, advantage / _LARGEST_ADVANTAGE))
        length = response.num_tokens
        surprisal = -sum(response.sampled_logprobs) / max(length, 1)
        rows.append(
            [
                1.0,
                scaled,
                abs(scaled),
                rate,
                4.0 * rate * (1.0 - rate),
                rate if response.is_positive else 1.0 - rate,
                float(response.is_positive) - pool.belief.mean,
                max(-1.0, min(1.0, length / mean_length - 1.0)) if mean_length else 0.0,
                float(response.is_truncated),
                max(0.0, min(1.0, surprisal / _LARGEST_SURPRISAL)),
            ]
        )
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(CONTEXTS))


@option("selection", "bandit")
@dataclass(kw_only=True, eq=False)
class BanditSelection(Checked, Selection):
    """A linear bandit learns which responses are worth training on (after CBS, arXiv:2602.08499; every number is ours).

    Takes the ``group_size`` responses of each pool with the highest upper confidence bound.

    The claim: which responses help depends on more than their reward (length, entropy, difficulty), and can be learned
    while training. Each response is an arm with a context (:func:`response_contexts`); what was chosen in a step t is
    paid by

        r = (V[t+1] - V[t]) - w_e [E[t] > e_min] (E[t+1] - E[t]),

    V the mean reward of a rollout (first round, unbiased by stopping) and E the policy's entropy, so a choice is paid
    when the next step is done. An arm's worth is estimated by ridge regression and explored by its confidence bound
    (LinUCB); a step is one observation, spread evenly over its arms, and older ones fade.

    Assumed: that a step's effect can be credited to kinds of responses although all of them share one noisy number. The
    advantage must be that of the pool (``advantage=official``): what is kept can be all of one class. The update is
    biased by the choice, and nothing undoes it.

    Degenerate: before the first payment the choice is the least explored arms; a pool of at most ``group_size`` is kept
    whole; equal bounds go to the first generated; steps without a figure of reward or entropy pay nothing.
    """

    traits = frozenset({Trait.RANKS_BY_ADVANTAGE, Trait.MAY_DROP_A_CLASS, Trait.COMPARES_POOLS})

    group_size: int = 4
    """Responses kept per prompt (the paper's K); the sampler draws more."""
    exploration: float = 0.1
    """Width of the confidence bound (alpha of LinUCB), in the unit of the payment, mean reward; 0 never explores."""
    ridge: float = 1.0
    """Weight of the prior that an arm is worth nothing, in observations, which are steps."""
    memory: float = 0.95
    """Share of what was learned that survives a step, as the policy changes."""
    entropy_weight: float = 0.1
    """Mean reward that a nat of entropy is worth (w_e)."""
    min_entropy: float = 0.1
    """Nats per token (e_min): falling entropy is not paid for below it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        size = len(CONTEXTS)
        self._squares: NDArray[np.float64] = np.zeros((size, size))
        """Sum over steps of the mean outer product of the arms chosen."""
        self._payments: NDArray[np.float64] = np.zeros(size)
        """Sum over steps of payment times mean context."""
        self._chosen: NDArray[np.float64] = np.zeros((0, size))
        self._unpaid: tuple[NDArray[np.float64], float, float] | None = None
        """Contexts chosen in the last finished step, its reward and its entropy."""

    def _checks(self) -> Iterator[Check]:
        yield from at_least(1, group_size=self.group_size)
        for name in ("exploration", "entropy_weight", "min_entropy"):
            value = getattr(self, name)
            yield 0 <= value < np.inf, f"selection.{name} must not be negative; got {value}"
        yield 0 < self.ridge < np.inf, f"selection.ridge must be positive; got {self.ridge}"
        yield 0 < self.memory <= 1, f"selection.memory must be in (0, 1]; got {self.memory}"

    @property
    def worth(self) -> dict[str, float]:
        """What each context is estimated to be worth, by its name."""
        return dict(zip(CONTEXTS, np.linalg.solve(self._precision(), self._payments).tolist(), strict=True))

    def select_all(self, pools: Sequence[ResponsePool]) -> Sequence[tuple[KeptResponse, ...]]:
        """Return the kept responses of each pool, in launch order."""
        covariance = np.linalg.inv(self._precision())
        weights = covariance @ self._payments
        kept, chosen = [], [np.zeros((0, len(CONTEXTS)))]
        for pool in pools:
            contexts = response_contexts(pool)
            spread = np.einsum("ni,ij,nj->n", contexts, covariance, contexts)
            bounds = contexts @ weights + self.exploration * np.sqrt(np.maximum(spread, 0.0))
            candidates = [index for index, response in enumerate(pool.responses) if not response.is_masked]
            best = sorted(candidates, key=lambda index: (-round(float(bounds[index]), 12), index))
            indices = sorted(best[: self.group_size])
            kept.append(with_selection_weights(pool, [pool.responses[index] for index in indices]))
            if pool.has_signal:  # only these train
                chosen.append(contexts[indices])
        self._chosen = np.concatenate(chosen)
        return kept

    def learn(self, metrics: Mapping[str, float]) -> None:
        """Pay for the choice of the step before this one, and remember this one."""
        if REWARD not in metrics or ENTROPY not in metrics:
            self._unpaid = None
            return
        reward, entropy = float(metrics[REWARD]), float(metrics[ENTROPY])
        if self._unpaid is not None and len(self._unpaid[0]):
            contexts, old_reward, old_entropy = self._unpaid
            payment = reward - old_reward
            if old_entropy > self.min_entropy:
                payment -= self.entropy_weight * (entropy - old_entropy)
            self._squares = self.memory * self._squares + contexts.T @ contexts / len(contexts)
            self._payments = self.memory * self._payments + payment * contexts.mean(axis=0)
        self._unpaid = self._chosen, reward, entropy

    def state_dict(self) -> dict[str, Any]:
        """What was learned, and the choice that is not paid yet."""
        unpaid = None
        if self._unpaid is not None:
            contexts, reward, entropy = self._unpaid
            unpaid = {"contexts": contexts.tolist(), "reward": reward, "entropy": entropy}
        return {"squares": self._squares.tolist(), "payments": self._payments.tolist(), "unpaid": unpaid}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        if not state:
            return
        self._squares = np.array(state["squares"])
        self._payments = np.array(state["payments"])
        unpaid = state["unpaid"]
        if unpaid is not None:
            contexts = np.array(unpaid["contexts"]).reshape(-1, len(CONTEXTS))
            self._unpaid = contexts, float(unpaid["reward"]), float(unpaid["entropy"])

    def caveat(self) -> str:
        """Say what it does to the update."""
        return (
            f"selection: a bandit chooses the {self.group_size} responses of each pool that train, by reward, length "
            "and entropy, and nothing undoes the choice: biased"
        )

    def _precision(self) -> NDArray[np.float64]:
        return self._squares + self.ridge * np.eye(len(CONTEXTS))


ROLLOUT_BANDITS = known(
    Recipe(
        name="rollout_bandits",
        card=Card(
            table="training",
            changes="a linear bandit (LinUCB) picks K responses of each pool",
            needs="the next step's reward and entropy",
            cost="n drawn, K trained",
            fidelity="after",
            departs="Features, LinUCB and all numbers are ours. There is no replay.",
        ),
        checked=Comparison(
            rule="numbers of ours: the paper's are not public",
            against="nothing",
            test="unit/methods/selection/test_bandit.py::test_it_learns_which_kind_of_response_helps",
        ),
        text="""
            A linear bandit chooses half of each group, by what earlier choices did to reward and entropy. It is after
            contextual rollout bandits (arXiv:2602.08499), which have no public code. Features, exploration and numbers
            are ours. Advantages are over the whole group, before the choice.
        """,
        sampler=use(UniformSampler, group_size=8),
        selection=BanditSelection,
        advantage=use(PoolMeanAdvantage, normalize_std=True),
        reduction="token_mean",
    )
)
