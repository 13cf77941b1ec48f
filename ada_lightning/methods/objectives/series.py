"""Objectives whose derivative is a power series in the failure rate."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor


class PowerSeriesObjective(ABC):
    """f(p) with ``f'(p) = sum_j a_j (1-p)^j``, ``a_j >= 0``. One's own objective is a subclass with these methods.

    An objective with weight near p = 1 has no such series; it implements
    :class:`~ada_lightning.core.protocols.Objective` itself, with terms of both sides (see
    :class:`~ada_lightning.methods.objectives.logit.LogitObjective`). Objects are compared and hashed by their value
    (make them frozen dataclasses): tables are cached by objective.

    Source:
        The objectives of Reinforce-Ada, arXiv:2510.04996v3, section 2.2 and appendix B; the series is ours.
    """

    @abstractmethod
    def value(self, pass_rate_B: Tensor) -> Tensor:
        """f(p), elementwise."""

    @abstractmethod
    def weight(self, pass_rate_B: Tensor) -> Tensor:
        """f'(p), elementwise: the factor on a prompt's gradient of p."""

    @abstractmethod
    def series(self, num_terms: int) -> list[float]:
        """The coefficients ``a_0 ... a_(num_terms - 1)``."""

    @abstractmethod
    def formula(self) -> str:
        """Return f as a person writes it, for the start-up message."""

    def terms(self, n_max: int) -> dict[tuple[int, int], float]:
        """``p q f'(p)`` as coefficients of ``p^i q^j``, by (i, j), up to degree ``n_max``.

        Here ``sum_j a_j p q^(j+1)``.
        """
        coefficients = self.series(max(0, n_max - 1))
        return {(1, power + 1): a for power, a in enumerate(coefficients) if a}
