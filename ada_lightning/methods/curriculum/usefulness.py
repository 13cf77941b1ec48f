"""How useful a visit to a prompt is, by its pass rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Objective, Sampler
from ada_lightning.core.records import Prompt, ResponsePool
from ada_lightning.core.stopping.paths import ends, reach
from ada_lightning.core.stopping.rule import StoppingRule
from ada_lightning.methods.objectives import LinearObjective
from ada_lightning.methods.objectives.support import supported_weight

_GRID = np.linspace(0.0, 1.0, 401)
"""Pass rates of the table; between them values are interpolated."""


@option("curriculum/usefulness", "learnability")
class Learnability:
    """``p (1 - p)``, the variance of a reward, whatever a visit costs.

    That is what a response of a fixed group is worth under the mean reward.

    Source:
        A lower bound of what a step improves is proportional to it: Bae et al., arXiv:2504.03380.

    Example:
        >>> Learnability()([0.0, 0.25, 0.5])
        [0.0, 0.1875, 0.25]
    """

    def __call__(self, pass_rates: Sequence[float]) -> list[float]:
        """Return ``p (1 - p)`` of each."""
        return [rate * (1.0 - rate) for rate in pass_rates]


@option("curriculum/usefulness", "signal_per_response", sampler="${sampler}", objective="${oc.select:objective,null}")
class SignalPerResponse:
    """``f'(p) p (1 - p)`` per response that the run's sampler is expected to draw: pull on the policy per response.

    A prompt of pass rate p moves the policy by ``f'(p) grad p``, and ``grad p = p q (mean score of its positives - mean
    score of its negatives)``. If that difference is equally long for all prompts, a visit is worth ``v(p) = f'(p) p
    q``, with f' as far as the stopping rule supports it. It costs ``c(p) = E[responses until the rule stops]``. To get
    the most out of a given number of responses, maximise ``sum of x v`` with ``sum of x c`` within the budget, where x
    says how often a prompt is visited and is bounded. This is a linear program of one constraint. Its solution takes
    prompts in the order of ``v / c`` (the fractional knapsack, Dantzig 1957).

    With fixed groups c is constant and the mean reward has ``v = p q``: the order of :class:`Learnability`. A rule that
    samples on until it has both classes spends most where one of them is rare, so v / c falls off faster towards 0 and
    1; the log objective moves the best pass rate below 1/2.

    Exact sums over the ends of the rule that a prompt without history follows. What a history changes in the rule
    (giving up, allocation, the step's budget) is left out, and a response costs the same whatever its length.

    Args:
        sampler: who gets more samples, who stops; its stopping rule sets the cost.
        objective: f, the run's objective; None, where its advantage has none, is the mean reward.

    Raises:
        ValueError: counts alone do not decide when the sampler stops.

    Example:
        >>> from ada_lightning.methods.sampling import BalanceSampler
        >>> sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
        >>> hard, even = SignalPerResponse(sampler=sampler)([0.1, 0.5])
        >>> round(even / hard, 1)  # of the pull alone it is 25/9
        7.9
    """

    def __init__(self, *, sampler: Sampler, objective: Objective | None = None) -> None:
        pool = ResponsePool(Prompt("unseen", ()), slot=0)
        sampler.plan([pool])
        rule = sampler.end(pool).rule
        if rule is None:
            raise ValueError(
                f"SignalPerResponse needs a sampler that stops by the counts of right and wrong responses, but "
                f"{type(sampler).__name__} stops by more than that. Use curriculum=learnability"
            )
        self.rule = rule
        self.objective = LinearObjective() if objective is None else objective
        self._values = _values(self.objective, rule)

    def __call__(self, pass_rates: Sequence[float]) -> list[float]:
        """Return ``f'(p) p q / E[responses]`` of each."""
        values: list[float] = np.interp(pass_rates, _GRID, self._values).tolist()
        return values


def _values(objective: Objective, rule: StoppingRule) -> NDArray[np.float64]:
    """Pull per response at the pass rates of the grid."""
    paths = reach(rule)
    pull = np.array([supported_weight(objective, rule, float(rate)) for rate in _GRID]) * _GRID * (1.0 - _GRID)
    cost = np.zeros_like(_GRID)
    for positives, negatives in ends(rule):  # all pass rates at once: there can be thousands of ends
        chance = paths[positives, negatives] * (2.0 * _GRID) ** positives * (2.0 * (1.0 - _GRID)) ** negatives
        cost += (positives + negatives) * chance
    return pull / cost
