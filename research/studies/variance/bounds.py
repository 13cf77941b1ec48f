"""What no rule can do better, for scores of unit norm: lower bounds of variance times cost.

The expected update of a prompt is ``f'(p) grad p`` if ``E[q a P' + p b Q'] = f'(p) p q``, where a and b are what each
of P' kept positives and Q' kept negatives weighs, whatever the rule does. Cauchy and Schwarz give

    (f' p q)^2 <= E[P' a^2 + Q' b^2] * E[q^2 P' + p^2 Q'].

Kept are at most those drawn, of which by Wald's identity ``E[P] = p E[N]`` for every stopping rule, so that

    variance * responses generated >= f'(p)^2 p q,
    variance * responses trained   >= f'(p)^2 p^2 q^2 / max(p, q)^2,

the first attained by ``A = f'(p) (r - p) / N`` on all of the pool, the second by training on the rarer class alone.
With a cost of c per trained response beside 1 per generated one, all of the pool or the rarer class alone is best,
whichever costs less: the rarer class where ``c > p / (1 - 2 p)`` (p < 1/2).

A step that gives prompt i, out of many, n_i responses in expectation (less than one: it is drawn with probability n_i
and weighs 1 / n_i) has the variance ``sum of sigma_i^2 / n_i`` with ``sigma^2 = f'^2 p q``: least for ``n_i`` in
proportion to ``sigma_i`` (Neyman 1934), and then ``(sum of sigma_i)^2`` over the number of responses.
"""

from __future__ import annotations

import numpy as np

from research.benchmarks.simulation.pass_rates import Mix
from research.studies.variance.update_moments import Array


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


def costs_least(rate: float, trained_cost: float) -> float:
    """Least variance times cost for ``f' = 1``, where a trained response costs so much beside a generated one's 1.

    Example:
        >>> costs_least(0.5, 0.0), round(costs_least(0.1, 1.0), 3)  # p q; of positives alone p (1 + p)
        (0.25, 0.11)
    """
    rarer = min(rate, 1.0 - rate)
    of_all = rate * (1.0 - rate) * (1.0 + trained_cost)
    of_rarer = rarer * (1.0 + trained_cost * rarer)
    return min(of_all, of_rarer)
