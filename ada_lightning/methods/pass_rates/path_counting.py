"""The whole pool, without the bias of stopping."""

from __future__ import annotations

from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.core.stopping.paths import unbiased_table
from ada_lightning.methods.functional.tables import at_pool_end


class PathCountingRate:
    """Share of paths to the pool's end that begin with a positive: unbiased, with less variance than the first round.

    Needs a stopping rule of counts and rewards of 0 or 1.

    Source:
        Girshick, Mosteller and Savage 1946.
    """

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Shape ``(B,)``.

        Raises:
            ValueError: a pool was ended by more than its counts.
        """
        return at_pool_end(microbatch, lambda rule: unbiased_table(rule, {(1, 0): 1.0}))
