"""What samplers share that draw block after block and decide between blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.protocols import Sampler
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.checked import Check, Checked, at_least

DRAWS_PER_RESPONSE = 2
"""Responses that are no evidence (failed grades, excluded truncations) are drawn anew, up to this many times ``n_max``
draws in all: a grader that fails always must end, too."""


@dataclass(kw_only=True, eq=False)
class BlockSampler(Checked, Sampler):
    """Blocks of ``samples_per_round`` until the pool is complete. A block counts evidence, not draws.

    A subclass says in :meth:`end` by which rule of counts, or whether a pool holds what it looks for: either ends the
    prompt's sampling, and so does ``n_max``. The rule is asked about every count and not only between blocks, so one
    that looks for something has to hold where a block is complete alone: ``(P + N) % samples_per_round == 0``.
    """

    samples_per_round: int = 4
    """Responses per block (the paper's M); decisions fall between blocks."""
    n_max: int = 32
    """Most responses per prompt and step (the paper's N_max)."""
    group_size: int = 4
    """Most responses kept for the update (the paper's n)."""
    budget_per_step: int = 0
    """Most responses of a whole rollout step; 0 sets no limit."""

    @property
    def most_per_prompt(self) -> int:
        """``n_max``."""
        return self.n_max

    def num_to_draw(self, pool: ResponsePool) -> int:
        """How many more responses to draw now; 0 ends the prompt's sampling."""
        if pool.num_drawn > 0 and self._is_complete(pool):
            return 0
        missing_of_block = self.samples_per_round - pool.num_sampled % self.samples_per_round
        return min(missing_of_block, DRAWS_PER_RESPONSE * self.n_max - pool.num_drawn)

    def _is_complete(self, pool: ResponsePool) -> bool:
        """Whether a pool with at least one draw needs no more responses; asked after every block, complete or not."""
        end = self.end(pool)
        if end.rule is not None:
            return end.rule.stops(pool.num_positive, pool.num_negative)
        is_between_blocks = pool.num_sampled > 0 and pool.num_sampled % self.samples_per_round == 0
        return pool.num_sampled >= self.n_max or (is_between_blocks and bool(end.is_resolved))

    def _checks(self) -> Iterator[Check]:
        block, most = self.samples_per_round, self.n_max
        yield from at_least(1, samples_per_round=block, n_max=most, group_size=self.group_size)
        yield (
            self.budget_per_step >= 0,
            f"budget_per_step must be 0 (no limit) or positive; got {self.budget_per_step}",
        )
        yield (
            self.group_size <= most,
            f"group_size = {self.group_size} exceeds n_max = {most}: no pool could fill a group; raise n_max",
        )
        if block > 0 and most > 0:
            yield (
                most % block == 0,
                f"samples_per_round = {block} does not divide n_max = {most}; use n_max = "
                f"{most // block * block or block} or another block size",
            )
