"""Which checkpoints stay."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """The newest few, and one in every so many steps for good.

    Args:
        keep_last: newest checkpoints that stay.
        keep_every: rollout steps; checkpoints at multiples of it stay for good. 0 keeps none of them.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> sorted(Retention(keep_last=2, keep_every=20).kept([10, 20, 30, 40, 50]))
        [20, 40, 50]
    """

    keep_last: int
    keep_every: int

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.keep_last < 1 or self.keep_every < 0:
            raise ValueError(
                "callbacks.checkpoint needs keep_last >= 1 and keep_every >= 0; "
                f"got {self.keep_last}, {self.keep_every}"
            )

    def kept(self, versions: Collection[int], *, updates_per_step: int = 1) -> set[int]:
        """Return those of the policy versions whose checkpoints stay; a rollout step makes ``updates_per_step``."""
        newest = set(sorted(versions)[-self.keep_last :])
        period = self.keep_every * updates_per_step
        return newest | {version for version in versions if period and version % period == 0}
