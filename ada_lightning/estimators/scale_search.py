"""Scales of a prior over logits, found from what was seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from ada_lightning.estimators.logit_prior import LogitPrior

_FACTOR = 1.5
"""Of a step to a larger or a smaller value."""
_SEARCHED = ("own_scale", "prompt_drift_visits", "similar_scale", "drift_scale")
"""In turn. The base and the time of the drift matter little to what is told apart, and are told by few numbers."""
_VISITS_PER_TRIAL = 8
LARGEST_SCALE = 10.0
"""In logits: wider priors say nothing more, and make covariances that cannot be factored."""


class ScaleSearch:
    """Climbs the evidence of what was seen, one scale at a time and a step per eight visits.

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

    def improve(self, num_visits: int, log_evidence: Callable[[LogitPrior], float]) -> bool:
        """Try what ``num_visits`` visits so far allow; whether :attr:`prior` is another then."""
        before = self.prior
        best: float | None = None
        while self.width > 0 and (self._num_trials + 1) * _VISITS_PER_TRIAL <= num_visits:
            name = _SEARCHED[self._num_trials % len(_SEARCHED)]
            self._num_trials += 1
            for candidate in self._neighbours(name):
                if best is None:
                    best = self._score(self.prior, log_evidence)
                if (score := self._score(candidate, log_evidence)) > best:
                    self.prior, best = candidate, score
                    break
        return self.prior != before

    def state_dict(self) -> dict[str, Any]:
        """The values given, those found, and how many trials were made."""
        return {"start": asdict(self.start), "prior": asdict(self.prior), "num_trials": self._num_trials}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`. Values that were given otherwise since are searched from where they are given."""
        found = state["prior"] if state["start"] == asdict(self.start) else asdict(self.start)
        self.prior = LogitPrior(**found)
        self._num_trials = int(state["num_trials"])

    def _neighbours(self, name: str) -> list[LogitPrior]:
        value = getattr(self.prior, name)
        if value == 0 or math.isinf(value):
            return []
        most = LARGEST_SCALE if name.endswith("scale") else math.inf
        return [replace(self.prior, **{name: near}) for near in (value * _FACTOR, value / _FACTOR) if near <= most]

    def _score(self, prior: LogitPrior, log_evidence: Callable[[LogitPrior], float]) -> float:
        far = sum(
            math.log(getattr(prior, name) / given) ** 2
            for name in _SEARCHED
            if 0 < (given := getattr(self.start, name)) < math.inf
        )
        return log_evidence(prior) - far / (2 * self.width**2)
