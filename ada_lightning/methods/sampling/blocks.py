"""What samplers share that draw block after block and decide between blocks."""

from __future__ import annotations

from ada_lightning.core.protocols import Sampler
from ada_lightning.core.records import ResponsePool

DRAWS_PER_RESPONSE = 2
"""Responses that are no evidence (failed grades, excluded truncations) are drawn anew, up to this many times ``n_max``
draws in all: a grader that fails always must end, too."""


class BlockSampler(Sampler):
    """Blocks of ``samples_per_round`` until the pool is complete. A block counts evidence, not draws.

    A subclass says in :meth:`end` by which rule of counts, or whether a pool holds what it looks for: either ends the
    prompt's sampling, and so does ``n_max``.

    Args:
        samples_per_round: responses per block (the paper's M).
        n_max: most responses per prompt and step (the paper's N_max).
        group_size: most responses kept for the update (the paper's n).
        budget_per_step: most responses of a whole rollout step; 0 sets no limit.

    Raises:
        ValueError: what :meth:`_size_errors` finds, all in one message.
    """

    def __init__(self, *, samples_per_round: int, n_max: int, group_size: int, budget_per_step: int) -> None:
        self.samples_per_round = samples_per_round
        self.n_max = n_max
        self.group_size = group_size
        self.budget_per_step = budget_per_step
        if errors := self._size_errors():
            raise ValueError("; ".join(errors))

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

    def _size_errors(self) -> list[str]:
        """What is wrong with the sizes, each with its value and the way out."""
        sizes = {
            "samples_per_round": self.samples_per_round,
            "n_max": self.n_max,
            "group_size": self.group_size,
        }
        errors = [f"{name} must be at least 1; got {value}" for name, value in sizes.items() if value < 1]
        if self.budget_per_step < 0:
            errors.append(f"budget_per_step must be 0 (no limit) or positive; got {self.budget_per_step}")
        if self.group_size > self.n_max:
            errors.append(
                f"group_size = {self.group_size} exceeds n_max = {self.n_max}: no pool could fill a group; raise n_max"
            )
        if self.samples_per_round > 0 and self.n_max % self.samples_per_round:
            below = self.n_max // self.samples_per_round * self.samples_per_round
            errors.append(
                f"samples_per_round = {self.samples_per_round} does not divide n_max = {self.n_max}; "
                f"use n_max = {below or self.samples_per_round} or another block size"
            )
        return errors
