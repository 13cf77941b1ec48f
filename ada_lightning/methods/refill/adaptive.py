"""Dynamic sampling whose further waves are as large as the share of signals so far makes necessary (GRESO)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from ada_lightning.core.protocols import RefillProgress
from ada_lightning.methods.checked import Check
from ada_lightning.methods.refill.dynamic import DynamicSampling


@dataclass(kw_only=True, eq=False)
class AdaptiveDynamicSampling(DynamicSampling):
    """Waves of ``slack * missing / share of groups with a signal`` prompts, at least ``min_ratio`` per group wanted.

    The claim: a fixed wave is too large where only a few groups are missing. How many are missing is known when every
    group of the last wave is complete, so waves do not overlap here, other than with :class:`DynamicSampling`.
    Degenerate: without any signal so far the next wave is as large as the first.

    Source:
        GRESO, arXiv:2506.02177, adaptive batch size; code ``Infini-AI-Lab/GRESO`` (1.25, 64, 384).
    """

    oversampling: float = 1.5
    """GRESO begins with 384 prompts for 256."""
    refill_ratio: float = field(init=False, default=0.0)
    min_ratio: float = 0.25
    """Fewest prompts of a further wave per group wanted; GRESO has 64 for 256."""
    slack: float = 1.25
    """By how much more prompts are drawn than are expected to do."""

    def _checks(self) -> Iterator[Check]:
        yield 0 <= self.min_ratio < math.inf, f"refill.min_ratio must not be negative; got {self.min_ratio}"
        yield 1 <= self.slack < math.inf, f"refill.slack must be at least 1 and finite; got {self.slack}"
        yield from super()._checks()

    def next_wave(self, progress: RefillProgress) -> int:
        """Return the next wave once the last one is complete; 0 before."""
        missing = progress.num_wanted - progress.num_signal
        if progress.num_open or missing <= 0:
            return 0
        if progress.num_signal == 0:
            return self._capped(self.first_wave(progress.num_wanted), progress)
        expected = math.ceil(self.slack * missing * progress.num_drawn / progress.num_signal)
        least = math.ceil(self.min_ratio * progress.num_wanted)
        return self._capped(max(expected, least, 1), progress)
