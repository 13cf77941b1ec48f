"""How logits of pass rates are taken to vary between prompts and over visits, before anything was seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
