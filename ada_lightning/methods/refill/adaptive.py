"""Dynamic sampling whose further waves are as large as the share of signals so far makes necessary (GRESO)."""

from __future__ import annotations

import math

from ada_lightning.core.records import RefillProgress
from ada_lightning.methods.refill.dynamic import DynamicSampling


class AdaptiveDynamicSampling(DynamicSampling):
    """Waves of ``slack * missing / share of groups with a signal`` prompts, at least ``min_ratio`` per group wanted.

    The claim: a fixed wave is too large where only a few groups are missing. How many are missing is known when every
    group of the last wave is complete, so waves do not overlap here, other than with :class:`DynamicSampling`.
    Degenerate: without any signal so far the next wave is as large as the first.

    Args:
        oversampling: as in the base class; GRESO begins with 384 prompts for 256.
        min_ratio: fewest prompts of a further wave per group wanted; GRESO has 64 for 256.
        slack: by how much more prompts are drawn than are expected to do.
        max_ratio: as in the base class.
        component: as there.
        keep_surplus: as there.

    Raises:
        ValueError: a value out of range; all in one message.

    Source:
        GRESO, arXiv:2506.02177, adaptive batch size; code ``Infini-AI-Lab/GRESO`` (1.25, 64, 384).
    """

    def __init__(
        self,
        *,
        oversampling: float = 1.5,
        min_ratio: float = 0.25,
        slack: float = 1.25,
        max_ratio: float = 10.0,
        component: str = "",
        keep_surplus: bool = False,
    ) -> None:
        errors = []
        if not 0 <= min_ratio < math.inf:
            errors.append(f"refill.min_ratio must not be negative; got {min_ratio}")
        if not 1 <= slack < math.inf:
            errors.append(f"refill.slack must be at least 1 and finite; got {slack}")
        try:
            super().__init__(
                oversampling=oversampling, max_ratio=max_ratio, component=component, keep_surplus=keep_surplus
            )
        except ValueError as error:
            errors.append(str(error))
        if errors:
            raise ValueError("; ".join(errors))
        self.min_ratio = min_ratio
        self.slack = slack

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
