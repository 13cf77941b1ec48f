"""What is maximised, as a function of the pass rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor


@runtime_checkable
class Objective(Protocol):
    """A function f of the pass rate p that is to be maximised. Hashable: tables are cached by objective."""

    def __hash__(self) -> int:
        """Equal objectives have equal hashes."""
        ...

    def value(self, pass_rate_B: Tensor) -> Tensor:
        """f(p), elementwise."""
        ...

    def weight(self, pass_rate_B: Tensor) -> Tensor:
        """f'(p), elementwise."""
        ...

    def terms(self, n_max: int) -> Mapping[tuple[int, int], float]:
        """``p q f'(p)`` as coefficients of ``p^i q^j``, by (i, j), all of them positive, up to degree ``n_max``.

        Each (i, j) has ``min(i, j) = 1``: with both classes in every term, a pool without signal gets no weight.
        """
        ...

    def formula(self) -> str:
        """Return f as a person writes it, for messages."""
        ...
