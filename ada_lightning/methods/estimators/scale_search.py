"""Scales of a prior over logits, found from what was seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from ada_lightning.methods.estimators.logit_prior import LogitPrior

_FACTOR = 1.5
"""Of a step to a larger or a smaller value."""
_SEARCHED = ("own_scale", "prompt_drift_visits", "similar_scale", "drift_scale")
"""In turn. The base and the time of the drift matter little to what is told apart, and are told by few numbers."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 8, 64
"""Visits from one trial to the next."""
LARGEST_SCALE = 10.0
"""In logits: wider priors say nothing more, and make covariances that cannot be factored."""


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
