"""Groups without signal: how many groups of n responses are all right, and all wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ada_lightning.analysis.metrics.mean_by_k import MeanByK
from ada_lightning.analysis.metrics.subsets import chance_all_in_class
from ada_lightning.core.records import Response


class AllCorrectGroups(MeanByK):
    """Share of groups of n responses that are all positive, for every n up to ``max_k``: no gradient for a fixed group.

    The chance that n of the drawn responses, taken at random, are all positive: unbiased for the mean of ``p^n``.
    """

    higher_is_better = None

    def values(self, responses: Sequence[Response]) -> NDArray[np.float64]:
        """Chances of one prompt."""
        return chance_all_in_class(sum(response.is_positive for response in responses), len(responses))


class AllWrongGroups(MeanByK):
    """Share of groups of n responses of which none is positive, for every n up to ``max_k``: ``1 - pass@n``."""

    higher_is_better = False

    def values(self, responses: Sequence[Response]) -> NDArray[np.float64]:
        """Chances of one prompt."""
        return chance_all_in_class(sum(not response.is_positive for response in responses), len(responses))
