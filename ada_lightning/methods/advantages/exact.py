"""The update follows a chosen objective exactly, under any stopping rule of counts."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.core.protocols import Compared, Objective
from ada_lightning.methods.functional.contrast import class_contrast
from ada_lightning.methods.functional.tables import at_pool_end
from ada_lightning.methods.objectives.support import coefficient_table


class ExactAdvantage:
    """Weights kept responses by path counting, so that a prompt's expected update is ``f'(p) grad p``.

    The pool mean at a stopping time is biased, and keeping as many positives as negatives changes the class mix: both
    are undone exactly by the coefficient ``c(P, Q)`` of :mod:`ada_lightning.methods.objectives.support`. Advantages are
    bounded by ``1 / (kept responses of the class)`` for the linear and the log objective. Exact together with the
    ``constant`` loss reduction, for the raw on-policy gradient (first minibatch, ratios of 1).

    Rewards count as 1 above ``rollout.positive_threshold`` and as 0 otherwise, whatever their amount or sign: p is the
    rate at which they exceed it.

    Args:
        objective: what is maximised, see :mod:`ada_lightning.methods.objectives`.

    Source:
        Ours; Girshick, Mosteller and Savage 1946 for the principle. ``docs/estimators.md`` has the derivation.
    """

    compares: ClassVar[Compared] = "drawn"
    needs_both_classes: ClassVar[bool] = True

    def __init__(self, *, objective: Objective) -> None:
        self.objective = objective

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return ``+c / m+`` or ``-c / m-``. Shape ``(B,)``, float32.

        Raises:
            ValueError: a pool was ended by more than its counts.
        """
        coefficient_B = at_pool_end(microbatch, partial(coefficient_table, self.objective))
        return class_contrast(microbatch, coefficient_B)
