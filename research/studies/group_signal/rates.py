"""Pass rates of prompts: known, a mix, or only counted. All that a stopping rule needs of them are moments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln, xlogy

from research.benchmarks.simulation.pass_rates import Mix

Floats = NDArray[np.float64]
_LOG_2 = np.log(2.0)


class PassRates(ABC):
    """Prompts in rows, each with a weight. A row is one prompt, or all prompts of one part of a mix."""

    weights_R: Floats
    """Share of all prompts. Shape ``(rows,)``, sums to 1."""

    @abstractmethod
    def scaled_moments(self, positives_E: NDArray[np.int64], negatives_E: NDArray[np.int64]) -> Floats:
        """Return ``E[(2p)^P (2q)^Q]`` of each row for points (P, Q).

        The factor ``2^(P+Q)`` undoes the scale in which :func:`ada_lightning.core.stopping.paths.reach` counts paths.

        Args:
            positives_E: P. Shape ``(points,)``.
            negatives_E: Q. Shape ``(points,)``.

        Returns:
            Shape ``(rows, points)``.
        """

    def mean(self, values_R: Floats) -> float:
        """Average over all prompts of a figure per row."""
        return float(self.weights_R @ values_R)


class KnownRates(PassRates):
    """One row per pass rate.

    Example:
        >>> KnownRates([0.5, 0.25]).scaled_moments(np.array([1]), np.array([1])).tolist()
        [[1.0], [0.75]]
    """

    def __init__(self, pass_rates: Sequence[float] | Floats, weights: Sequence[float] | Floats = ()) -> None:
        self.pass_rates = np.asarray(pass_rates, dtype=float)
        if not self.pass_rates.size or not ((self.pass_rates >= 0) & (self.pass_rates <= 1)).all():
            raise ValueError(f"pass rates must be in [0, 1], at least one; got {pass_rates}")
        self.weights_R = np.asarray(
            weights if len(weights) else np.full(len(self.pass_rates), 1 / len(self.pass_rates))
        )
        if len(self.weights_R) != len(self.pass_rates) or abs(self.weights_R.sum() - 1) > 1e-9:
            raise ValueError(f"{len(self.pass_rates)} pass rates need as many weights that sum to 1; got {weights}")

    def scaled_moments(self, positives_E: NDArray[np.int64], negatives_E: NDArray[np.int64]) -> Floats:
        """Return ``(2p)^P (2q)^Q``."""
        rates_R1 = self.pass_rates[:, None]
        return np.exp(xlogy(positives_E, 2 * rates_R1) + xlogy(negatives_E, 2 * (1 - rates_R1)))


class MixRates(PassRates):
    """Three rows: prompts that are never solved, always solved, and the Beta distribution of the rest.

    ``E[p^P q^Q] = B(alpha + P, beta + Q) / B(alpha, beta)``: no grid of pass rates, no sampling.
    """

    def __init__(self, mix: Mix) -> None:
        self.mix = mix
        self.weights_R = np.array([mix.never, mix.always, 1 - mix.never - mix.always])

    def scaled_moments(self, positives_E: NDArray[np.int64], negatives_E: NDArray[np.int64]) -> Floats:
        """Return the moments of a point mass at 0, one at 1, and of the Beta distribution."""
        totals_E = positives_E + negatives_E
        scale_E = 2.0**totals_E
        alpha, beta = self.mix.alpha, self.mix.beta
        log_moment_E = betaln(alpha + positives_E, beta + negatives_E) - betaln(alpha, beta)
        return np.stack(
            [scale_E * (positives_E == 0), scale_E * (negatives_E == 0), np.exp(log_moment_E + totals_E * _LOG_2)]
        )


class CountedRates(PassRates):
    """One row per prompt of which only counts are known: the moments are unbiased, whatever the pass rates are.

    ``C(k, P) C(n-k, Q) / C(n, P+Q)`` over the number of orders of P and Q: what a rule would do, on average over all
    orders of the responses that were drawn. Nothing is assumed about the distribution of pass rates.

    Example:
        >>> CountedRates([2], [4]).scaled_moments(np.array([2]), np.array([0])).round(4).tolist()  # 4 * 2/4 * 1/3
        [[0.6667]]
    """

    def __init__(self, positives: Sequence[int], responses: Sequence[int]) -> None:
        self.positives_R, self.responses_R = np.asarray(positives), np.asarray(responses)
        if not len(self.positives_R) or len(self.positives_R) != len(self.responses_R):
            raise ValueError(f"one count per prompt is needed; got {len(positives)} of right, {len(responses)} of all")
        if not ((self.positives_R >= 0) & (self.positives_R <= self.responses_R)).all():
            raise ValueError("right responses must be between 0 and all graded ones, for each prompt")
        self.weights_R = np.full(len(self.positives_R), 1 / len(self.positives_R))

    @property
    def most_responses(self) -> int:
        """Largest P + Q that counts of every prompt can tell about."""
        return int(self.responses_R.min())

    def scaled_moments(self, positives_E: NDArray[np.int64], negatives_E: NDArray[np.int64]) -> Floats:
        """Return the unbiased estimates."""
        totals_E = positives_E + negatives_E
        if totals_E.max(initial=0) > self.most_responses:
            raise ValueError(
                f"a rule that draws {totals_E.max()} responses cannot be computed from {self.most_responses} counted "
                "ones; draw more, or lower its n_max"
            )
        right_R1, wrong_R1 = self.positives_R[:, None], (self.responses_R - self.positives_R)[:, None]
        exists = (positives_E <= right_R1) & (negatives_E <= wrong_R1)
        log_moment = (
            _log_falling(right_R1, np.minimum(positives_E, right_R1))
            + _log_falling(wrong_R1, np.minimum(negatives_E, wrong_R1))
            - _log_falling(self.responses_R[:, None], totals_E)
        )
        return np.where(exists, np.exp(log_moment + totals_E * _LOG_2), 0.0)


def _log_falling(base: NDArray[np.int64], terms: NDArray[np.int64]) -> Floats:
    """Logarithm of ``base (base - 1) ... (base - terms + 1)``."""
    return np.asarray(gammaln(base + 1) - gammaln(base - terms + 1))
