"""How much better than expected a response was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from ada_lightning.core.records import ResponseGroup

if TYPE_CHECKING:  # torch stays out of reward workers
    from torch import Tensor

    from ada_lightning.core.batch import Microbatch


@runtime_checkable
class PassRate(Protocol):
    """Which estimate of a pool's pass rate a weight or a baseline uses. Elementwise."""

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Pass rate of each response's prompt. Shape ``(B,)``, float32, in [0, 1].

        Where rewards are not binary, the expected reward in the reward's unit.
        """
        ...


Compared = Literal["drawn", "kept"]
"""The responses of a prompt that a baseline is made of: all that were drawn in the step, or those that train."""


class Advantage(Protocol):
    """How much better than expected each kept response was, weight included. Elementwise.

    It may have attributes, of the class where they are always the same:

    - ``needs_groups_without_signal``: True where the advantages of a group whose rewards are all equal may differ from
      0, so that such groups are not left out of the update;
    - ``compares``: which responses of its prompt a response is compared with, so that a single one is refused;
    - ``needs_both_classes``: True where it follows its objective only if positives and negatives are kept of every pool
      that has both.
    """

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Advantages of the microbatch's responses. Shape ``(B,)``, float32."""
        ...


@runtime_checkable
class RolloutAdvantage(Protocol):
    """An advantage that needs all groups of a rollout at once, such as a mean or a spread over the whole batch.

    It is asked once per rollout; ``__call__`` then returns ``microbatch.assigned_advantage_B``.
    """

    def assign(self, groups: Sequence[ResponseGroup]) -> Sequence[Sequence[float]]:
        """Return the advantage of every kept response, group by group, in the order of ``group.kept``."""
        ...

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return what :meth:`assign` said. Shape ``(B,)``, float32."""
        ...
