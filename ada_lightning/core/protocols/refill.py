"""Prompts drawn on top, in place of those without a signal."""

from __future__ import annotations

from ada_lightning.core.protocols.part import Part
from ada_lightning.core.records import RefillProgress, ResponsePool


class Refill(Part):
    """Whether groups without a signal are replaced within their step, and by how many prompts at once."""

    is_on: bool = False
    """False: every prompt of a step counts, and nothing below is asked."""

    def first_wave(self, num_wanted: int) -> int:
        """Return with how many prompts a step begins that is to have ``num_wanted`` groups with a signal."""
        return num_wanted

    def next_wave(self, progress: RefillProgress) -> int:
        """Return how many prompts join now; 0 none.

        Asked again and again. The number of prompts that have joined in the end must be a function of the groups'
        outcomes in the order of the prompts, so that latency decides nothing: an answer may use open groups only as
        far as no outcome of theirs could change it. Must have an end on any data.
        """
        return 0

    def has_signal(self, pool: ResponsePool) -> bool:
        """Whether a complete pool is one of those wanted; a selection may turn it down still (:meth:`takes`)."""
        return True

    def is_correct(self, pool: ResponsePool) -> bool:
        """Whether a complete pool without a signal is all right, instead of all wrong."""
        return pool.num_sampled > 0 and pool.num_negative == 0
