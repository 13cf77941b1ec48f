"""Each prompt's own counts, fading with every visit, on top of a prior fitted to all prompts."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.checks import unmet
from ada_lightning.core.options import option
from ada_lightning.core.prompt_columns import BeliefColumns, PromptTable
from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.methods.estimators.counting import CountingEstimator, tally

_NUM_RECENT = 512
"""Visits of prompts that the prior for unseen ones is fitted to."""
_MIN_POOLS = 16
"""Fewer outcomes than this say too little: the uniform prior stays."""
_SMALLEST_RATE = 1e-3
"""Rates below it, and above 1 minus it, count as this one: counts of tens of responses cannot tell them apart."""
_MAX_NEWTON_STEPS = 25
_LARGEST_STEP = 1.0
"""In logits, of one Newton step: far from the solution a full one may overshoot."""


@option("estimator", "beta_history")
class BetaHistory(CountingEstimator):
    """Beta posterior: each prompt's own counts, fading with every visit, on a prior fitted to all prompts.

    Of prompts with counts of their own the mean of the posterior is then corrected by how far the policy has moved
    since (:class:`Drift`); its strength, alpha + beta, stays.

    Args:
        memory: share of a prompt's counts that survives a visit, since the policy has changed in between.
        drift_visits: latest visits that tell how far the policy has moved since what is remembered; 0 takes what is
            remembered as it is.
        history_file: known counts to start from: a run's history.json (``{prompt id: [positives, responses]}``) or
            measured pass rates as .parquet (``prompt_id, num_positive, num_samples``); None: none.

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

    def recall(self, prompts: Sequence[Prompt]) -> Sequence[Belief]:
        """Return prior plus remembered counts of each prompt, moved as far as the policy has moved since."""
        if isinstance(prompts, PromptTable):
            return self._of_table(prompts)
        return [self._moved(self._remembered(prompt.prompt_id)) for prompt in prompts]

    def _of_table(self, prompts: PromptTable) -> BeliefColumns:
        counts_PW, is_seen_P = self._known.columns(prompts)
        positives_P, negatives_P = counts_PW.T
        alpha_P, beta_P = self._prior.alpha + positives_P, self._prior.beta + negatives_P
        if self._drift.is_known:
            strength_P = alpha_P + beta_P
            rates_P = self._drift.corrected(alpha_P / strength_P)
            alpha_P = np.where(is_seen_P, rates_P * strength_P, alpha_P)
            beta_P = np.where(is_seen_P, (1 - rates_P) * strength_P, beta_P)
        return BeliefColumns(alpha_P, beta_P, positives_P + negatives_P, positives_P, is_seen_P)

    def _moved(self, remembered: Belief) -> Belief:
        if not remembered.is_seen or not self._drift.is_known:
            return remembered
        rate, strength = float(self._drift.corrected(remembered.mean)), remembered.alpha + remembered.beta
        return replace(remembered, alpha=rate * strength, beta=(1 - rate) * strength)

    def _remembered(self, prompt_id: str) -> Belief:
        """What a prompt's counts say, as if the policy had not moved since."""
        positives, negatives = self._known.get(prompt_id, (0.0, 0.0))
        alpha, beta = self._prior.alpha + positives, self._prior.beta + negatives
        return Belief(alpha, beta, positives + negatives, positives, prompt_id in self._known)


class Drift:
    """A straight line through logits: ``logit(rate now) = offset + slope * logit(remembered rate)``.

    Counts of earlier visits speak of the policy that it was then. While it learns quickly they lag behind, and for all
    prompts in much the same way, so the latest visits say by how much: at each of them a rate was remembered and
    responses were drawn. Offset and slope are those under which these draws are the most likely, with a standard normal
    prior about 0 and 1, which is what one or two visits leave them at. Which prompts were visited may depend on the
    remembered rate without harm, since the line describes what was drawn *given* that rate.

    Args:
        num_visits: latest visits that the line is fitted to; 0 changes nothing.

    Source:
        Ours, from Platt's scaling of probabilities (1999).
    """

    def __init__(self, num_visits: int) -> None:
        self.offset = 0.0
        self.slope = 1.0
        self._visits: deque[tuple[float, int, int]] = deque(maxlen=num_visits)

    @property
    def is_known(self) -> bool:
        """Whether there were visits to learn from."""
        return bool(self._visits)

    def observe(self, visits: Sequence[tuple[float, int, int]]) -> None:
        """Learn from visits, each the remembered rate, before any correction, with positives and responses drawn."""
        if self._visits.maxlen and visits:
            self._visits.extend(visits)
            self._fit()

    def corrected(self, rate: float | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what to expect now where rates are remembered, never below 0.001 nor above 0.999."""
        from scipy.special import expit

        moved: NDArray[np.float64] = expit(self.offset + self.slope * _logit(rate))
        return np.clip(moved, _SMALLEST_RATE, 1 - _SMALLEST_RATE)

    def state_dict(self) -> list[list[float]]:
        """The visits, from which the line follows."""
        return [list(visit) for visit in self._visits]

    def load_state_dict(self, state: Sequence[Sequence[float]]) -> None:
        """Restore :meth:`state_dict`."""
        self._visits.clear()
        self.observe([(rate, int(positives), int(responses)) for rate, positives, responses in state])

    def _fit(self) -> None:
        """Newton's method on the penalised likelihood, which is concave.

        Never from where the last fit ended: a resumed run, which has the visits alone, finds the same line to the bit.
        """
        from scipy.special import expit

        rates_V, positives_V, responses_V = np.array(self._visits, dtype=float).T
        features_VF = np.stack([np.ones_like(rates_V), _logit(rates_V)], axis=1)
        prior_F = np.array([0.0, 1.0])
        line_F = prior_F
        for _ in range(_MAX_NEWTON_STEPS):
            expected_V = expit(features_VF @ line_F)
            gradient_F = features_VF.T @ (positives_V - responses_V * expected_V) - (line_F - prior_F)
            variances_V = responses_V * expected_V * (1 - expected_V)
            curvature_FF = (features_VF * variances_V[:, None]).T @ features_VF + np.eye(2)
            step_F = np.clip(np.linalg.solve(curvature_FF, gradient_F), -_LARGEST_STEP, _LARGEST_STEP)
            line_F = line_F + step_F
            if np.abs(step_F).max() < 1e-6:
                break
        self.offset, self.slope = float(line_F[0]), float(line_F[1])


def _logit(rates: float | NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import logit

    clipped: NDArray[np.float64] = logit(np.clip(rates, _SMALLEST_RATE, 1 - _SMALLEST_RATE))
    return clipped


def fit_pooled_prior(outcomes: Sequence[tuple[int, int]]) -> Belief:
    """Empirical Bayes: the Beta distribution under which the outcomes are most likely.

    The likelihood of counts at a stopping time does not depend on the stopping rule, so adaptively sampled pools may go
    in as they are. Searched on a fixed grid of means and strengths: deterministic, and fine enough for a prior.

    Args:
        outcomes: (positives, responses) of pools.

    Returns:
        The best prior, or Beta(1, 1) below 16 outcomes.

    Example:
        >>> round(fit_pooled_prior([(0, 8), (8, 8)] * 20).mean, 6)
        0.5
    """
    from scipy.special import betaln

    if len(outcomes) < _MIN_POOLS:
        return Belief()
    times = Counter(outcomes)  # of a thousand outcomes few differ
    positives_N, sizes_N = np.array(list(times), dtype=float).T
    alpha_G, beta_G = _grid()
    log_likelihood_GN = betaln(alpha_G[:, None] + positives_N, beta_G[:, None] + sizes_N - positives_N)
    times_N = np.array(list(times.values()), dtype=float)
    log_likelihood_G = log_likelihood_GN @ times_N - len(outcomes) * betaln(alpha_G, beta_G)
    best = int(np.argmax(log_likelihood_G))
    return Belief(float(alpha_G[best]), float(beta_G[best]))


@lru_cache(maxsize=1)
def _grid() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    means = np.concatenate([[0.01, 0.02, 0.03], np.linspace(0.05, 0.95, 19), [0.97, 0.98, 0.99]])
    strengths = 2.0 ** np.arange(-3, 6)
    alpha_G, strength_G = (axis.ravel() for axis in np.meshgrid(means, strengths))
    return alpha_G * strength_G, (1 - alpha_G) * strength_G
