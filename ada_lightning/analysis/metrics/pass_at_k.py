"""pass@k: the chance that one of k responses is positive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ada_lightning.analysis.metrics.mean_by_k import MeanByK
from ada_lightning.analysis.metrics.subsets import pass_at_k
from ada_lightning.core.records import Response


class PassAtK(MeanByK):
    """Mean over prompts of the unbiased pass@k, for every k up to ``max_k``."""

    higher_is_better = True

    def values(self, responses: Sequence[Response]) -> NDArray[np.float64]:
        """pass@k of one prompt."""
        return pass_at_k(sum(response.is_positive for response in responses), len(responses))
