"""The part of an objective that a stopping rule can follow exactly, and its coefficient at each end.

With m+ kept positives at ``+c/m+`` each and m- kept negatives at ``-c/m-`` each, the expected sum over a prompt's kept
responses of advantage times score is ``grad p * E[c] / (p q)``. So an update follows f exactly if and only if
``E[c] = p q f'(p)``, and path counting gives such a c for every term that the rule lets some order of draws reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Objective
from ada_lightning.core.stopping.paths import unbiased_table
from ada_lightning.core.stopping.rule import StoppingRule


class UnsupportedObjectiveError(ValueError):
    """The stopping rule supports not a single term of the objective."""


@lru_cache(maxsize=4096)
def supported_terms(objective: Objective, rule: StoppingRule) -> Mapping[tuple[int, int], float]:
    """Terms of ``p q f'(p)`` that the rule supports, by (i, j).

    A term counts if the order that draws the class with more responses first (negatives where i = j) passes only
    through points where the rule does not stop. Terms that only other orders reach could be estimated too, but their
    coefficients grow large where few paths lead (3.9 for the logarithm with a rule that gives up at (0, 8)). With the
    terms above alone, c stays in [0, 1] for the linear and the log objective.

    Example:
        >>> from ada_lightning.methods.objectives import LogObjective
        >>> from ada_lightning.core.stopping import FixedRule
        >>> dict(supported_terms(LogObjective(), FixedRule(4)))
        {(1, 1): 1.0, (1, 2): 1.0, (1, 3): 1.0}
    """
    most_positives = _longest_run(rule, is_positive=True)
    most_negatives = _longest_run(rule, is_positive=False)
    return {
        (i, j): weight
        for (i, j), weight in objective.terms(rule.n_max).items()
        if (j <= most_negatives if i == 1 else i <= most_positives)
    }


@lru_cache(maxsize=4096)
def coefficient_table(objective: Objective, rule: StoppingRule) -> NDArray[np.float64]:
    """The coefficient c by the point (P, Q) where sampling ended. Shape ``(n_max + 1, n_max + 1)``, read-only.

    0 where a class is missing, and where the rule never gets.

    Example:
        >>> from ada_lightning.methods.objectives import LinearObjective
        >>> from ada_lightning.core.stopping import FixedRule
        >>> float(coefficient_table(LinearObjective(), FixedRule(4))[2, 2])  # P Q / (N (N - 1))
        0.3333333333333333
    """
    table = unbiased_table(rule, supported_terms(objective, rule))
    table.setflags(write=False)
    return table


def supported_weight(objective: Objective, rule: StoppingRule, pass_rate: float) -> float:
    """``f'(p)`` as far as the rule supports it: the factor on grad p that the exact estimator has in expectation.

    Example:
        >>> from ada_lightning.methods.objectives import LogObjective
        >>> from ada_lightning.core.stopping import QuotaRule
        >>> rule = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
        >>> round(supported_weight(LogObjective(), rule, 0.1), 4)  # (1 - 0.9^31) / 0.1
        9.6185
    """
    failure_rate = 1.0 - pass_rate
    terms = supported_terms(objective, rule).items()
    return sum(weight * pass_rate ** (i - 1.0) * failure_rate ** (j - 1.0) for (i, j), weight in terms)


def check_supported(objective: Objective, rule: StoppingRule) -> None:
    """Reject an objective of which nothing can be followed.

    Raises:
        UnsupportedObjectiveError: no term is supported.
    """
    if supported_terms(objective, rule):
        return
    wanted = objective.terms(1000)
    needed = f"its first term needs {min(i + j for i, j in wanted)} responses; " if wanted else ""
    raise UnsupportedObjectiveError(
        f"the stopping rule (at most {rule.n_max} responses per prompt) cannot support the objective "
        f"{objective.formula()}: {needed}raise sampler.n_max or choose another objective"
    )


def _longest_run(rule: StoppingRule, *, is_positive: bool) -> int:
    """Responses of one class that can come in a row from the start and still be followed by one more."""
    length = 0
    while length < rule.n_max - 1:
        if rule.stops(length + 1, 0) if is_positive else rule.stops(0, length + 1):
            break
        length += 1
    return length
