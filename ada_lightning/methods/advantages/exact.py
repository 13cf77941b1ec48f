"""The update follows a chosen objective: exactly, under any stopping rule of counts, or by an estimated pass rate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option, use
from ada_lightning.core.protocols import Advantage, Objective, PassRate, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.functional import at_pool_end, class_contrast
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.objectives.support import coefficient_table
from ada_lightning.methods.pass_rates import PoolMeanRate

_LOG = LogObjective()
_POOL_MEAN = PoolMeanRate()
_OBJECTIVE = {"/objective": "log"}
"""The objective is a choice of its own on the command line."""


@option("advantage", "exact", package="_global_", defaults=[_OBJECTIVE], objective="${objective}")
@dataclass(kw_only=True, eq=False)
class ExactAdvantage(Advantage):
    """Path counting: the expected update is exactly that of the objective, for any stopping rule of counts.

    The objective is a choice of its own: ``objective=log | linear | power | pass_at_k | logit``. A prompt's expected
    update is ``f'(p) grad p``.

    The pool mean at a stopping time is biased, and keeping as many positives as negatives changes the shares of the
    classes. The coefficient ``c(P, Q)`` of :mod:`ada_lightning.methods.objectives.support` undoes both exactly.
    Advantages are bounded by ``1 / (kept responses of the class)`` for the linear and the log objective. Exact together
    with the ``constant`` loss reduction, for the raw on-policy gradient (first minibatch, ratios of 1).

    Rewards count as 1 above ``rollout.positive_threshold`` and as 0 otherwise, whatever their amount or sign: p is the
    rate at which they exceed it.

    Source:
        Ours; Girshick, Mosteller and Savage 1946 for the principle. ``docs/estimators.md`` has the derivation.
    """

    traits = frozenset({Trait.COMPARES_DRAWN, Trait.NEEDS_BOTH_CLASSES})

    objective: Objective = _LOG
    """What is maximised, see :mod:`ada_lightning.methods.objectives`."""

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return ``+c / m+`` or ``-c / m-``. Shape ``(G,)``.

        Raises:
            ValueError: the pool was ended by more than its counts.
        """
        return class_contrast(group, at_pool_end(group.pool, partial(coefficient_table, self.objective)))


@option(
    "advantage",
    "stratified",
    package="_global_",
    defaults=[_OBJECTIVE],
    objective="${objective}",
    pass_rate=use(PoolMeanRate),
)
@dataclass(kw_only=True, eq=False)
class StratifiedAdvantage(Advantage):
    """The plug-in relative of ``exact``, for any sampler: ``f'(p) p (1-p)`` at an estimated pass rate.

    The objective is a choice of its own: ``objective=log | linear | power | pass_at_k | logit``. The coefficient
    ``c = f'(p) p (1-p)`` is split over the kept responses of each class.

    Undoes the selection's shares of the classes for any sampler, but not the bias of an estimate taken at a stopping
    time; `python -m research.benchmarks.estimator_bias` computes that bias. Rewards must be 0 or 1: the estimates
    average them.

    Source:
        Post-stratification; derived for Reinforce-Ada in ``docs/estimators.md``.
    """

    traits = frozenset({Trait.COMPARES_DRAWN, Trait.NEEDS_BOTH_CLASSES})

    objective: Objective = _LOG
    """What is maximised."""
    pass_rate: PassRate = _POOL_MEAN
    """Which estimate goes in: ``advantage.pass_rate._target_=ada_lightning.methods.pass_rates.PoolMeanRate``, or
    ``FirstRoundRate``, ``PosteriorRate``, ``PathCountingRate``."""

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return ``+c / m+`` or ``-c / m-``; 0 where the estimate is 0 or 1. Shape ``(G,)``.

        Raises:
            ValueError: a reward is neither 0 nor 1, or the positive threshold does not tell them apart.
        """
        for response in group.pool.responses:
            if response.reward != response.is_positive:
                raise ValueError(
                    "advantage=stratified estimates pass rates from rewards of 0 and 1, with "
                    f"rollout.positive_threshold between them; a pool holds a reward of {response.reward:g}; use a "
                    "reward of 0 and 1, or advantage=weighted_leave_one_out"
                )
        rate = np.broadcast_to(self.pass_rate(group), len(group.kept))
        inside = (rate > 0) & (rate < 1)
        safe = np.where(inside, rate, 0.5)
        return class_contrast(group, np.where(inside, self.objective.weight(safe) * safe * (1.0 - safe), 0.0))
