"""How logits of pass rates vary between prompts and over visits: the prior, its scales, and the spread of responses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_FACTOR = 1.5
"""Of a step to a larger or a smaller value."""
_SEARCHED = ("own_scale", "prompt_drift_visits", "similar_scale", "drift_scale")
"""In turn. The base and the time of the drift matter little to what is told apart, and are told by few numbers."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 8, 64
"""Visits from one trial to the next."""
LARGEST_SCALE = 10.0
"""In logits: wider priors say nothing more, and make covariances that cannot be factored."""
_NOISE = 0.12
"""Standard deviation of what four responses show of p (1 - p), enumerated: 0.10 at p = 1/2, 0.13 at 1/4 and 1/10."""
_LEAST, _MOST = 0.02, 0.98
"""Shares of a mean's m (1 - m) between which E[p (1 - p)] is kept: there is a Beta distribution for each of them."""


@dataclass(frozen=True)
class Placed:
    """Prompts at the times they are asked about."""

    prompt_ids: NDArray[np.str_]
    times_N: Array
    """Visits before."""
    rows_NH: Array
    """Where the prompts lie, about a middle of 0 and at a mean square distance of 1 from it."""


@dataclass(frozen=True)
class Between:
    """What a covariance between M and N placed prompts depends on, whatever the scales. Shapes ``(M, N)``."""

    visits: Array
    likeness: Array
    """Inner products of rows: 1 on average for a prompt with itself, below 0 for prompts on opposite sides."""
    same: NDArray[np.bool_]

    @classmethod
    def of(cls, these: Placed, those: Placed) -> Between:
        """Compare each with each."""
        return cls(
            np.abs(these.times_N[:, None] - those.times_N),
            these.rows_NH @ those.rows_NH.T,
            these.prompt_ids[:, None] == those.prompt_ids,
        )


@dataclass(frozen=True, kw_only=True)
class LogitPrior:
    """A normal prior of mean 0: a base, a drift of all, and what differs between prompts, which moves too.

    Args:
        base_scale: standard deviation in logits of what all prompts share for good.
        drift_scale: of what they share and what moves with the policy.
        drift_visits: visits after which ``1/e`` of it is left.
        similar_scale: of what prompts share that lie near each other, at the mean distance from the middle.
        own_scale: of what a prompt has for itself.
        prompt_drift_visits: visits after which ``1/e`` is left of what differs between prompts.
    """

    base_scale: float
    drift_scale: float
    drift_visits: float
    similar_scale: float
    own_scale: float
    prompt_drift_visits: float

    def covariance(self, between: Between) -> Array:
        """Return the covariance of logits. Shape ``(M, N)``."""
        differing = self.similar_scale**2 * between.likeness + self.own_scale**2 * between.same
        return (
            self.base_scale**2
            + self.drift_scale**2 * np.exp(-between.visits / self.drift_visits)
            + differing * np.exp(-between.visits / self.prompt_drift_visits)
        )

    def variance(self, these: Placed) -> Array:
        """Return the variance of each logit. Shape ``(N,)``."""
        likeness_N = (these.rows_NH**2).sum(axis=1)
        return self.base_scale**2 + self.drift_scale**2 + self.similar_scale**2 * likeness_N + self.own_scale**2


class ScaleSearch:
    """Climbs the evidence of what was seen, one scale at a time and at most a step per eight visits.

    When each scale in turn was tried in vain, trials become half as frequent, down to one per 64 visits; after one that
    helped they are frequent again.

    Which scales fit depends on the task and the model, and changes while a policy gets surer of itself: then prompts
    are nearly always right or nearly always wrong. Each scale has a log-normal prior about its given value, so that few
    visits do not move it far. One that is 0 or infinite stays, since that says that a part is not wanted.

    Args:
        start: the given values.
        width: standard deviation of the logarithm of a scale; 0 leaves all as they are.

    Source:
        Evidence maximisation, Rasmussen and Williams 2006, section 5.4.1; a search in steps instead of gradients, for
        a few fits per step of training.
    """

    def __init__(self, start: LogitPrior, *, width: float) -> None:
        self.start = start
        self.width = width
        self.prior = start
        self._num_trials = 0
        self._num_failed = 0
        """In a row."""
        self._pause = self._next_trial = _SHORTEST_PAUSE

    def improve(self, num_visits: int, log_evidence: Callable[[LogitPrior], float]) -> bool:
        """Try what ``num_visits`` visits so far allow, while it helps; whether :attr:`prior` is another then."""
        before = self.prior
        best: float | None = None
        while self.width > 0 and self._next_trial <= num_visits:
            best = self._score(self.prior, log_evidence) if best is None else best
            name = _SEARCHED[self._num_trials % len(_SEARCHED)]
            self._num_trials += 1
            self._num_failed += 1
            for candidate in self._neighbours(name):
                if (score := self._score(candidate, log_evidence)) > best:
                    self.prior, best = candidate, score
                    self._num_failed, self._pause = 0, _SHORTEST_PAUSE
                    break
            self._next_trial += self._pause
            if self._num_failed == len(_SEARCHED):
                self._num_failed, self._pause = 0, min(2 * self._pause, _LONGEST_PAUSE)
                self._next_trial = max(self._next_trial, num_visits + self._pause)  # the rest is not made up for
        if self.width == 0:
            self._next_trial = num_visits + self._pause
        return self.prior != before

    def state_dict(self) -> dict[str, Any]:
        """The values given, those found, and how far the search is."""
        return {
            "start": asdict(self.start),
            "prior": asdict(self.prior),
            "num_trials": self._num_trials,
            "num_failed": self._num_failed,
            "pause": self._pause,
            "next_trial": self._next_trial,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`. Where other values are given now, or nothing is to be searched, those hold."""
        self._num_trials = int(state["num_trials"])
        self._next_trial = int(state["next_trial"])
        if self.width > 0 and state["start"] == asdict(self.start):
            self._num_failed, self._pause = int(state["num_failed"]), int(state["pause"])
            self.prior = LogitPrior(**state["prior"])
            return
        self.prior = self.start
        self._num_failed, self._pause = 0, _SHORTEST_PAUSE

    def _neighbours(self, name: str) -> list[LogitPrior]:
        value = getattr(self.prior, name)
        if value == 0 or math.isinf(value):
            return []
        most = LARGEST_SCALE if name.endswith("scale") else math.inf
        return [replace(self.prior, **{name: other}) for other in (value * _FACTOR, value / _FACTOR) if other <= most]

    def _score(self, prior: LogitPrior, log_evidence: Callable[[LogitPrior], float]) -> float:
        square_distance = sum(
            (math.log(getattr(prior, name) / given) / self.width) ** 2
            for name in _SEARCHED
            if 0 < (given := getattr(self.start, name)) < math.inf
        )
        return log_evidence(prior) - square_distance / 2


@dataclass(frozen=True)
class SpreadFit:
    """Regression on by how much visits showed more spread than was expected of them, by a Gaussian process.

    The spread is how much responses to a prompt differ among themselves, where pass rates of similar prompts do not
    say. Prompts of which half of all responses are right may be answered right half of the time each, or half of them
    always and the others never. A pass rate that is told from similar prompts is one half in both cases, and a group of
    responses has a signal in the first alone. A policy goes from the first to the second while it trains: it becomes
    sure of itself, of what it trains on most.

    Args:
        prior: of what is regressed on.
        weights_V: of the V visits, 0 where one showed nothing. Shape ``(V,)``.

    Source:
        Ours. What it changes: ``python -m research.studies.real_model.calibration``.
    """

    prior: LogitPrior
    weights_V: Array

    @classmethod
    def of(cls, prior: LogitPrior, excess_V: Array, between: Between) -> SpreadFit:
        """Fit to visits.

        Args:
            prior: of what is regressed on.
            excess_V: of each visit; not a number where it showed none. Shape ``(V,)``.
            between: the visits with each other. Shapes ``(V, V)``.
        """
        is_shown_V = np.isfinite(excess_V)
        covariance_VV = prior.covariance(between)[np.ix_(is_shown_V, is_shown_V)]
        covariance_VV[np.diag_indices_from(covariance_VV)] += _NOISE**2
        weights_V = np.zeros(len(excess_V))
        weights_V[is_shown_V] = np.linalg.solve(covariance_VV, excess_V[is_shown_V])
        return cls(prior, weights_V)

    def excess(self, between: Between) -> Array:
        """Return what to add to the expected spread of prompts. Shape ``(P,)``.

        Args:
            between: the prompts with the visits. Shapes ``(P, V)``.
        """
        return self.prior.covariance(between) @ self.weights_V


def shown_spread(positives: float, responses: float) -> float:
    """Return the estimate of p (1 - p) without bias that so many right responses give; not a number below two.

    Example:
        >>> shown_spread(2, 4), shown_spread(4, 4)
        (0.3333333333333333, 0.0)
    """
    if responses < 2:
        return float("nan")
    return positives * (responses - positives) / (responses * (responses - 1))


def expected_spread(alpha_P: Array, beta_P: Array) -> Array:
    """Return E[p (1 - p)] of Beta distributions. Shape ``(P,)``."""
    total_P = alpha_P + beta_P
    return alpha_P * beta_P / (total_P * (total_P + 1.0))


def with_spread(alpha_P: Array, beta_P: Array, spread_P: Array) -> tuple[Array, Array]:
    """Return Beta distributions of the same means whose E[p (1 - p)] are given, as far as those means allow.

    Returns:
        alpha and beta, shapes ``(P,)``.

    Example:
        >>> alpha, beta = with_spread(np.array([2.0]), np.array([2.0]), np.array([0.05]))
        >>> float(alpha[0] / (alpha[0] + beta[0])), round(float(expected_spread(alpha, beta)[0]), 6)
        (0.5, 0.05)
    """
    mean_P = alpha_P / (alpha_P + beta_P)
    most_P = mean_P * (1.0 - mean_P)
    spread_P = np.clip(spread_P, _LEAST * most_P, _MOST * most_P)
    total_P = spread_P / (most_P - spread_P)
    return mean_P * total_P, (1.0 - mean_P) * total_P
