"""Each prompt's own counts, fading with every visit, on top of a prior fitted to all prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ada_lightning.core.checks import unmet
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.estimators.counting import CountingEstimator
from ada_lightning.methods.estimators.drift import Drift
from ada_lightning.methods.estimators.pooled_prior import fit_pooled_prior
from ada_lightning.methods.estimators.tally import tally

_NUM_RECENT = 512
"""Visits of prompts that the prior for unseen ones is fitted to."""


class BetaHistory(CountingEstimator):
    """Beta posterior of each prompt's pass rate: pooled prior plus its own counts, forgotten geometrically.

    Of prompts with counts of their own the mean of the posterior is then corrected by how far the policy has moved
    since (:class:`~ada_lightning.methods.estimators.drift.Drift`); its strength, alpha + beta, stays.

    Args:
        memory: share of a prompt's counts that survives a visit, since the policy has changed in between.
        drift_visits: latest visits that tell how far the policy has moved since what is remembered; 0 takes what is
            remembered as it is.
        history_file: known counts to start from (:mod:`ada_lightning.methods.estimators.history_file`); None starts
            from the prior alone.

    Raises:
        ValueError: ``memory`` outside [0, 1], ``drift_visits`` negative, or a history file that cannot be used; all in
            one message.
    """

    def __init__(self, *, memory: float = 0.7, drift_visits: int = 0, history_file: str | None = None) -> None:
        errors = unmet(
            (0 <= memory <= 1, "estimator.memory must be in [0, 1]", memory),
            (drift_visits >= 0, "estimator.drift_visits must not be negative", drift_visits),
        )
        super().__init__(history_file, errors)
        self.memory = memory
        self._drift = Drift(drift_visits)
        self._recent: deque[tuple[int, int]] = deque(maxlen=_NUM_RECENT)
        self._prior = Belief()

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the step's counts, and fit prior and drift again."""
        self.learn(tally(pools))

    def learn(self, seen: Mapping[str, tuple[int, int]]) -> None:
        """Do the same from (positives, responses) by prompt id, such as a prompt log has."""
        self._drift.observe(
            [(self._remembered(id_).mean, *counts) for id_, counts in seen.items() if id_ in self._known]
        )
        for prompt_id, (num_positive, num_sampled) in seen.items():
            positives, negatives = self._known.get(prompt_id, (0.0, 0.0))
            num_negative = num_sampled - num_positive
            self._known[prompt_id] = self.memory * positives + num_positive, self.memory * negatives + num_negative
            self._recent.append((num_positive, num_sampled))
        self._prior = fit_pooled_prior(self._recent)

    def state_dict(self) -> dict[str, Any]:
        """Counts by prompt id, and the outcomes behind prior and drift."""
        recent = [list(outcome) for outcome in self._recent]
        return super().state_dict() | {"recent": recent, "drift": self._drift.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; it replaces what came from a history file."""
        super().load_state_dict(state)
        self._recent = deque(((int(p), int(n)) for p, n in state["recent"]), maxlen=_NUM_RECENT)
        self._prior = fit_pooled_prior(self._recent)
        self._drift.load_state_dict(state["drift"])

    def recall(self, prompts: Sequence[Prompt]) -> list[Belief]:
        """Return prior plus remembered counts of each prompt, moved as far as the policy has moved since."""
        return [self._moved(self._remembered(prompt.prompt_id)) for prompt in prompts]

    def _moved(self, remembered: Belief) -> Belief:
        if not remembered.is_seen or not self._drift.is_known:
            return remembered
        rate, strength = self._drift.corrected(remembered.mean), remembered.alpha + remembered.beta
        return replace(remembered, alpha=rate * strength, beta=(1 - rate) * strength)

    def _remembered(self, prompt_id: str) -> Belief:
        """What a prompt's counts say, as if the policy had not moved since."""
        positives, negatives = self._known.get(prompt_id, (0.0, 0.0))
        alpha, beta = self._prior.alpha + positives, self._prior.beta + negatives
        return Belief(alpha, beta, positives + negatives, positives, prompt_id in self._known)
