"""First and second moments of a prompt's update, by pass rate: exact sums over the ends of its sampling.

With Delta the difference of the classes' mean scores, positives have the mean ``q Delta`` and negatives ``-p Delta``,
since scores have mean zero, and ``grad p = p q Delta``. Given where sampling ended, an update ``sum of A s`` has the
mean ``k Delta`` with ``k = q (sum of A over positives) - p (sum of A over negatives)`` and, scores within a class being
independent, the variance ``sum of A^2`` over positives times that of a positive's score, plus the same for negatives.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.stopping.paths import ends as ends_of
from ada_lightning.core.stopping.paths import reach
from ada_lightning.core.stopping.rule import StoppingRule
from research.benchmarks.expected_update import Ends
from research.benchmarks.simulation.pass_rates import Mix

Array = NDArray[np.float64]


@dataclass(frozen=True)
class UpdateMoments:
    """Expectations of one rule, by pass rate. Shapes ``(P,)``."""

    signal_P: Array
    """E[k], in units of Delta. The rule follows the objective with ``f'(p) = E[k] / (p q)``."""
    signal_square_P: Array
    """E[k^2]."""
    positive_noise_P: Array
    """E[sum of A^2] over kept positives."""
    negative_noise_P: Array
    """The same over negatives."""
    positive_drawn_P: Array
    """Positives generated."""
    negative_drawn_P: Array
    """Negatives generated."""
    positive_kept_P: Array
    """Positives trained."""
    negative_kept_P: Array
    """Negatives trained."""

    @property
    def noise(self) -> Array:
        """E[sum of A^2]."""
        return self.positive_noise_P + self.negative_noise_P

    @property
    def drawn(self) -> Array:
        """Responses generated."""
        return self.positive_drawn_P + self.negative_drawn_P

    @property
    def kept(self) -> Array:
        """Responses trained."""
        return self.positive_kept_P + self.negative_kept_P

    def scaled(self, weight_P: Array) -> UpdateMoments:
        """Return these times a probability that depends on the pass rate: a part of a mixture of rules."""
        return UpdateMoments(*(getattr(self, field.name) * weight_P for field in fields(self)))

    def __add__(self, other: UpdateMoments) -> UpdateMoments:
        """Add another part of a mixture."""
        return UpdateMoments(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def update_moments(ends: Ends, rates_P: Array) -> UpdateMoments:
    """Return the moments at these pass rates, 0 and 1 included.

    Example:
        >>> from ada_lightning.core.stopping import FixedRule
        >>> one = update_moments(fixed_weight(FixedRule(1), 0.5), np.array([0.2]))  # A = r - 1/2 on a single response
        >>> round(float(one.signal_P[0] / (0.2 * 0.8)), 12), round(float(one.noise[0]), 12)  # f' = 1; 1/4
        (1.0, 0.25)
    """
    chance_PE = np.stack([ends.probabilities(float(rate)) for rate in rates_P])
    right, wrong = ends.positive_sums_E, ends.negative_sums_E
    fails_P = 1.0 - rates_P
    return UpdateMoments(
        signal_P=fails_P * (chance_PE @ right) - rates_P * (chance_PE @ wrong),
        signal_square_P=fails_P**2 * (chance_PE @ right**2)
        - 2 * rates_P * fails_P * (chance_PE @ (right * wrong))
        + rates_P**2 * (chance_PE @ wrong**2),
        positive_noise_P=chance_PE @ ends.positive_squares_E,
        negative_noise_P=chance_PE @ ends.negative_squares_E,
        positive_drawn_P=chance_PE @ ends.positives_E,
        negative_drawn_P=chance_PE @ ends.negatives_E,
        positive_kept_P=chance_PE @ ends.positive_kept_E,
        negative_kept_P=chance_PE @ ends.negative_kept_E,
    )


def ends_with(rule: StoppingRule, of_positive_E: Array, of_negative_E: Array) -> Ends:
    """Return the ends of a rule where each positive and each negative has a given advantage; with 0 it trains not."""
    points = np.array(list(ends_of(rule)), dtype=np.float64)
    positives_E, negatives_E = points.T
    return Ends(
        positives_E=positives_E,
        negatives_E=negatives_E,
        paths_E=np.array([reach(rule)[int(p), int(n)] for p, n in points]),
        positive_sums_E=of_positive_E * positives_E,
        negative_sums_E=of_negative_E * negatives_E,
        positive_squares_E=of_positive_E**2 * positives_E,
        negative_squares_E=of_negative_E**2 * negatives_E,
        positive_kept_E=positives_E * (of_positive_E != 0),
        negative_kept_E=negatives_E * (of_negative_E != 0),
    )


def fixed_weight(rule: StoppingRule, baseline: float) -> Ends:
    """Return the ends where every response has ``(r - baseline) / N``, whatever the others are: REINFORCE."""
    totals_E = np.array([positives + negatives for positives, negatives in ends_of(rule)], dtype=np.float64)
    return ends_with(rule, (1.0 - baseline) / totals_E, -baseline / totals_E)


def generated_bound(signal_P: Array, mix: Mix) -> float:
    """Least relative variance times responses generated, of all rules that know p and follow ``k(p)``.

    Returns:
        ``(E[|k| / sqrt(p q)] / E[k])^2``: in units of a score's second moment over the squared length of Delta, where
        the Delta of all prompts point the same way.
    """
    rates_P = mix.grid()
    spread_P = np.sqrt(rates_P * (1.0 - rates_P))
    sigma_P = np.divide(np.abs(signal_P), spread_P, out=np.zeros_like(spread_P), where=spread_P > 0)
    return (mix.expect(sigma_P) / mix.expect(signal_P)) ** 2


def trained_bound(signal_P: Array, mix: Mix) -> float:
    """Return the same for responses trained: ``(E[|k| / max(p, q)] / E[k])^2``."""
    rates_P = mix.grid()
    sigma_P = np.abs(signal_P) / np.maximum(rates_P, 1.0 - rates_P)
    return (mix.expect(sigma_P) / mix.expect(signal_P)) ** 2


def chosen_bound(mix: Mix, share: float) -> float:
    """Least relative variance times responses generated where a step takes the best share of its candidates.

    Weights and objective are free: every response counts ``r - p``, so a prompt's squared signal over noise is ``p q``
    per response and the best prompts are those nearest to 1/2.

    Returns:
        1 over the mean of ``p q`` of that share.

    Example:
        >>> from research.benchmarks.simulation.pass_rates import Mix
        >>> round(chosen_bound(Mix(0.0, 0.0, 0.5, 0.5), 1.0), 2)  # E[p q] = 1/8 for the arcsine distribution
        8.0
    """
    rates_P, weights_P = mix.grid(), weights_of(mix)
    useful_P = rates_P * (1.0 - rates_P)
    order = np.argsort(-useful_P)
    before_P = np.cumsum(weights_P[order]) - weights_P[order]
    taken_P = np.clip(share - before_P, 0.0, weights_P[order])
    return float(taken_P.sum() / (taken_P * useful_P[order]).sum())


def weights_of(mix: Mix) -> Array:
    """Return the share of prompts at each point of the mix's grid."""
    between = 1.0 - mix.never - mix.always
    num = len(mix.grid()) - 2
    return np.concatenate([[mix.never, mix.always], np.full(num, between / num)])
