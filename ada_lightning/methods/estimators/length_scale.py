"""How far apart two prompts may lie and still speak for each other: the length of a radial kernel."""

from __future__ import annotations

import math

from torch import Tensor


class MedianDistance:
    """The median of the distances between the prompts of the first step that has two different ones.

    Source:
        VIP, arXiv:2602.01601, takes it over the whole training set; one step is a sample of that, and nothing beyond
        the step's own prompts needs an embedding.
    """

    def __call__(self, distances_M: Tensor) -> float:
        """Return the median of distances above 0; there is at least one."""
        return float(distances_M.median())


class FixedLengthScale:
    """A length given beforehand.

    Args:
        value: in the unit of the embeddings' distance. Normalised embeddings lie within 2 of each other; the public
            code of VIP has 0.4, at another commit 0.27, for those of ``all-MiniLM-L6-v2``.

    Raises:
        ValueError: ``value`` is not positive and finite.
    """

    def __init__(self, *, value: float) -> None:
        if not 0 < value < math.inf:
            raise ValueError(f"estimator.length_scale.value must be positive and finite; got {value}")
        self.value = float(value)

    def __call__(self, distances_M: Tensor) -> float:
        """Return it, whatever the distances."""
        return self.value
