"""How the learning rate changes over a run."""

from __future__ import annotations

import math


class ConstantSchedule:
    """The configured rate throughout."""

    def __call__(self, share_done: float) -> float:
        """Return the factor of the configured rate; ``share_done`` is that of the run, in [0, 1]."""
        return 1.0


class _Decay:
    """From the configured rate to ``final`` of it.

    Args:
        final: share of the configured rate that is left at the end of the run.

    Raises:
        ValueError: ``final`` outside [0, 1].
    """

    def __init__(self, *, final: float = 0.0) -> None:
        if not 0 <= final <= 1:
            raise ValueError(f"policy.schedule.final must be in [0, 1], a share of the learning rate; got {final}")
        self.final = final


class LinearSchedule(_Decay):
    """Falls in a straight line."""

    def __call__(self, share_done: float) -> float:
        """See :class:`ConstantSchedule`.

        Example:
            >>> [LinearSchedule(final=0.5)(share) for share in (0.0, 0.5, 1.0)]
            [1.0, 0.75, 0.5]
        """
        return 1.0 - (1.0 - self.final) * share_done


class CosineSchedule(_Decay):
    """Falls along half a cosine: slowly at first and at the end."""

    def __call__(self, share_done: float) -> float:
        """See :class:`ConstantSchedule`.

        Example:
            >>> [round(CosineSchedule()(share), 3) for share in (0.0, 0.5, 1.0)]
            [1.0, 0.5, 0.0]
        """
        return self.final + (1.0 - self.final) * (1.0 + math.cos(math.pi * share_done)) / 2
