"""Seq-balance that gives up by posterior, on first and second visits to the same prompts: exact sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.core.stopping import QuotaRule, StoppingRule
from ada_lightning.core.stopping.paths import Point
from ada_lightning.methods.estimators.pooled_prior import fit_pooled_prior
from ada_lightning.methods.sampling import GiveUpByPosterior
from research.studies.group_signal.outcome import Outcome, end_chances, outcome, second_outcome
from research.studies.group_signal.rates import PassRates

PRICE, MEMORY = 0.25, 0.7
"""As conf/sampler/balance_posterior.yaml and conf/estimator/beta_history.yaml."""
_MOST_REPEATS = 12
_NUM_POOLS = 4096
"""Pools that stand for the distribution of ends when the prior is fitted; a run takes its last 512."""


def posterior_exit(quota: QuotaRule, rates: PassRates) -> tuple[Outcome, Outcome]:
    """What the first and the second visit to every prompt of a mix yield, visits that explore left out.

    The prior is the one that a run's history fits to pools of the plain quota rule. The price is a share of what the
    visit itself achieves in completed quotas per response, as a run in its steady state finds it; where that goes back
    and forth between two values of the sampler's grid, the lower one is taken.

    Returns:
        Of the first visit, whose prompts are known by the mix alone, and of the second, which remembers the first.
    """
    prior = pooled_prior(quota, rates)

    def first(rate: float) -> Outcome:
        return outcome(_rule(quota, prior, rate), rates)

    rate, settled = _settle(first, outcome(quota, rates))
    first_rule = _rule(quota, prior, rate)

    def second(rate: float) -> Outcome:
        def next_rule(end: Point) -> StoppingRule:
            return _rule(quota, Belief(prior.alpha + MEMORY * end[0], prior.beta + MEMORY * end[1]), rate)

        return second_outcome(first_rule, next_rule, rates)

    return settled, _settle(second, settled)[1]


def pooled_prior(quota: QuotaRule, rates: PassRates) -> Belief:
    """Fit the history's prior to pools in the proportions in which the rule ends."""
    points, chances = end_chances(quota, rates)
    numbers = np.diff(np.round(_NUM_POOLS * np.append(0.0, np.cumsum(chances)))).astype(int)
    pools = [(int(right), int(right + wrong)) for right, wrong in np.repeat(points, numbers, axis=0)]
    return fit_pooled_prior(pools)


def _settle(visit: Callable[[float], Outcome], before: Outcome) -> tuple[float, Outcome]:
    """Repeat a visit with the rate that it achieved, until the rate is one that was tried."""
    found: dict[float, Outcome] = {}
    rate = before.balanced / before.responses
    for _ in range(_MOST_REPEATS):
        if rate in found:
            break
        found[rate] = visit(rate)
        rate = found[rate].balanced / found[rate].responses
    settled = min(list(found)[-2:])
    return settled, found[settled]


def _rule(quota: QuotaRule, belief: Belief, rate: float) -> StoppingRule:
    """Ask the sampler's own part, as if the recent steps had achieved this many completed quotas per response."""
    give_up = GiveUpByPosterior(price=PRICE, explore_ratio=0.0)
    give_up.load_state_dict({"num_resolved": rate, "num_drawn": 1.0})
    return give_up.rule(quota, ResponsePool(Prompt("p", (), prompt_ids=(0,)), slot=0, belief=belief))
