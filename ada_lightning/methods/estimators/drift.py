"""How far the policy has moved since what is remembered of its prompts."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

_SMALLEST_RATE = 1e-3
"""Rates below it, and above 1 minus it, count as this one: counts of tens of responses cannot tell them apart."""
_MAX_NEWTON_STEPS = 25
_LARGEST_STEP = 1.0
"""In logits, of one Newton step: far from the solution a full one may overshoot."""


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

    def corrected(self, rate: float) -> float:
        """Return what to expect now where this rate is remembered, never below 0.001 nor above 0.999."""
        moved = expit(self.offset + self.slope * _logit(rate))
        return float(np.clip(moved, _SMALLEST_RATE, 1 - _SMALLEST_RATE))

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
    clipped: NDArray[np.float64] = logit(np.clip(rates, _SMALLEST_RATE, 1 - _SMALLEST_RATE))
    return clipped
