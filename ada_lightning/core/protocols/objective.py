"""What is maximised, as a function of the pass rate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class Objective:
    """A function f of the pass rate p that is to be maximised, with ``f'(p) = sum_j a_j (1-p)^j``, ``a_j >= 0``.

    Objects are compared and hashed by their value (make them frozen dataclasses): tables are cached by objective. An
    objective with weight near p = 1 has no such series; it overrides :meth:`terms` instead of :meth:`series`, as
    :class:`~ada_lightning.methods.objectives.LogitObjective` does.

    Source:
        The objectives of Reinforce-Ada, arXiv:2510.04996v3, section 2.2 and appendix B; the series is ours.
    """

    def value(self, pass_rate: Values) -> Values:
        """f(p), elementwise."""
        raise NotImplementedError(f"{type(self).__name__} needs a method value(pass_rate)")

    def weight(self, pass_rate: Values) -> Values:
        """f'(p), elementwise: the factor on a prompt's gradient of p."""
        raise NotImplementedError(f"{type(self).__name__} needs a method weight(pass_rate)")

    def formula(self) -> str:
        """Return f as a person writes it, for messages."""
        raise NotImplementedError(f"{type(self).__name__} needs a method formula()")

    def series(self, num_terms: int) -> list[float]:
        """The coefficients ``a_0 ... a_(num_terms - 1)``."""
        raise NotImplementedError(f"{type(self).__name__} needs a method series(num_terms), or terms(n_max)")

    def terms(self, n_max: int) -> Mapping[tuple[int, int], float]:
        """``p q f'(p)`` as coefficients of ``p^i q^j``, by (i, j), all of them positive, up to degree ``n_max``.

        By default ``sum_j a_j p q^(j+1)``. Each (i, j) has ``min(i, j) = 1``: with both classes in every term, a pool
        without signal gets no weight.
        """
        coefficients = self.series(max(0, n_max - 1))
        return {(1, power + 1): a for power, a in enumerate(coefficients) if a}
