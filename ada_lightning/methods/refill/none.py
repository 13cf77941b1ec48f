"""A step has the prompts it has."""

from __future__ import annotations

from ada_lightning.core.records import RefillProgress, ResponsePool


class NoRefill:
    """Every prompt of a step counts, with or without a signal, and none is drawn in its stead. Costs nothing."""

    is_on = False
    keep_surplus = False

    def first_wave(self, num_wanted: int) -> int:
        """As many prompts as the step has."""
        return num_wanted

    def next_wave(self, progress: RefillProgress) -> int:
        """No more."""
        return 0

    def has_signal(self, pool: ResponsePool) -> bool:
        """Every pool counts."""
        return True

    def is_correct(self, pool: ResponsePool) -> bool:
        """Whether every response that counts is a positive."""
        return pool.num_sampled > 0 and pool.num_negative == 0

    def bend(self) -> str:
        """Nothing is bent."""
        return ""
