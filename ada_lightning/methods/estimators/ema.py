"""Each prompt's own counts, fading by a constant factor per visit, on top of a fixed Beta prior."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ada_lightning.core.checks import unmet
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.estimators.counting import CountingEstimator
from ada_lightning.methods.estimators.history_file import HistoryCounts
from ada_lightning.methods.estimators.tally import tally


class EmaEstimator(CountingEstimator):
    """Predicts ``(positives + alpha) / (responses + alpha + beta)`` from counts that are averaged exponentially.

    With every visit to a prompt, ``positives <- decay * positives + k`` and ``responses <- decay * responses + n``.
    Nothing fades between visits. The defaults expect little of a prompt never seen: 1/17. With 8 responses per visit
    the responses tend to 8 / (1 - 0.9) = 80, so predictions stay between 1/97 and 81/97.

    Args:
        alpha: positives imagined beforehand; above 0.
        beta: negatives imagined beforehand; above 0.
        decay: share of a prompt's counts that survives a visit, since the policy has changed in between.
        history_file: known counts to start from (:mod:`ada_lightning.methods.estimators.history_file`); None starts
            from the prior alone.

    Raises:
        ValueError: a value out of its range, or a history file that cannot be used; all in one message.

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, section on Est (EMA with a Beta prior, no values given); the values are those
        of RLHFlow/Reinforce-Ada at e876f3e (branch ``hanze``), ``ray_trainer_ema.py`` L989-1009 and L1158-1165.

    Example:
        >>> estimator = EmaEstimator()
        >>> [belief] = estimator.predict([Prompt("never seen", ())], represent=lambda prompts: None)
        >>> belief.alpha, belief.beta
        (1.0, 16.0)
    """

    def __init__(
        self, *, alpha: float = 1.0, beta: float = 16.0, decay: float = 0.9, history_file: str | None = None
    ) -> None:
        errors = unmet(
            (0 < alpha < math.inf, "estimator.alpha must be positive and finite", alpha),
            (0 < beta < math.inf, "estimator.beta must be positive and finite", beta),
            (0 <= decay <= 1, "estimator.decay must be in [0, 1]", decay),
        )
        super().__init__(history_file, errors)
        self.prior = Belief(float(alpha), float(beta))
        self.decay = decay
        self._known = dict(self._history.counts)
        """(positives, responses)."""

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Let the counts of these prompts fade and add those of the step."""
        for prompt_id, (num_positive, num_sampled) in tally(pools).items():
            positives, responses = self._known.get(prompt_id, (0.0, 0.0))
            self._known[prompt_id] = self.decay * positives + num_positive, self.decay * responses + num_sampled

    def history_counts(self) -> HistoryCounts:
        """What a later run can start from."""
        return {prompt_id: (positives, responses) for prompt_id, (positives, responses) in self._known.items()}

    def recall(self, prompts: Sequence[Prompt]) -> list[Belief]:
        """Return prior plus remembered counts of each prompt."""
        return [self._belief(prompt.prompt_id) for prompt in prompts]

    def _belief(self, prompt_id: str) -> Belief:
        right, responses = self._known.get(prompt_id, (0.0, 0.0))
        alpha, beta = self.prior.alpha + right, self.prior.beta + responses - right
        return Belief(alpha, beta, responses, right, prompt_id in self._known)
