"""The update follows a chosen objective exactly, under any stopping rule of counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, Objective, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.functional import at_pool_end, class_contrast
from ada_lightning.methods.objectives.support import coefficient_table


@dataclass(kw_only=True, eq=False)
class ExactAdvantage(Advantage):
    """Weights kept responses by path counting, so that a prompt's expected update is ``f'(p) grad p``.

    The pool mean at a stopping time is biased, and keeping as many positives as negatives changes the class mix: both
    are undone exactly by the coefficient ``c(P, Q)`` of :mod:`ada_lightning.methods.objectives.support`. Advantages are
    bounded by ``1 / (kept responses of the class)`` for the linear and the log objective. Exact together with the
    ``constant`` loss reduction, for the raw on-policy gradient (first minibatch, ratios of 1).

    Rewards count as 1 above ``rollout.positive_threshold`` and as 0 otherwise, whatever their amount or sign: p is the
    rate at which they exceed it.

    Source:
        Ours; Girshick, Mosteller and Savage 1946 for the principle. ``docs/estimators.md`` has the derivation.
    """

    traits = frozenset({Trait.COMPARES_DRAWN, Trait.NEEDS_BOTH_CLASSES})

    objective: Objective
    """What is maximised, see :mod:`ada_lightning.methods.objectives`."""

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return ``+c / m+`` or ``-c / m-``. Shape ``(G,)``.

        Raises:
            ValueError: the pool was ended by more than its counts.
        """
        return class_contrast(group, at_pool_end(group.pool, partial(coefficient_table, self.objective)))
