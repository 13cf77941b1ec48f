"""Sample a prompt block by block until its pool holds the signal that was asked for (Reinforce-Ada-Seq)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from ada_lightning.types import ResponsePool


class SequentialSampler(ABC):
    """Blocks of ``samples_per_round`` until :meth:`is_resolved` or until ``n_max`` responses are drawn.

    Decides on complete blocks only, as the published algorithm does, so the distribution of a pool depends on the
    pass rate alone and not on when responses happened to finish.

    Args:
        samples_per_round: responses per block (the paper's M).
        n_max: most responses per prompt and step (the paper's N_max).
        group_size: most responses kept for the update (the paper's n).

    Source:
        Reinforce-Ada, arXiv:2510.04996v3, Algorithm 2; official code ``verl/trainer/ppo/ray_trainer.py``,
        ``_generate_multi_round_adaptive_downsampling``.
    """

    def __init__(self, *, samples_per_round: int, n_max: int, group_size: int) -> None:
        self.samples_per_round = samples_per_round
        self.n_max = n_max
        self.group_size = group_size

    @abstractmethod
    def is_resolved(self, pool: ResponsePool) -> bool:
        """Whether the pool holds the wanted signal."""

    @property
    def max_per_prompt(self) -> int:
        """Upper limit of draws for one prompt in one step."""
        return self.n_max

    def num_to_draw(self, pool: ResponsePool) -> int:
        """How many more responses to draw now; 0 ends the prompt's sampling."""
        if pool.num_drawn >= self.n_max or (pool.num_drawn > 0 and self.is_resolved(pool)):
            return 0
        return min(self.samples_per_round, self.n_max - pool.num_drawn)

    def state_dict(self) -> dict[str, Any]:
        """Nothing outlives a step."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - nothing to restore is right here
        """Accept :meth:`state_dict`."""

    def size_errors(self, **quotas: int) -> list[str]:
        """What is wrong with the sizes, each with its value and the way out."""
        errors = [
            f"{name} must be at least 1; got {value}"
            for name, value in (
                ("samples_per_round", self.samples_per_round),
                ("n_max", self.n_max),
                ("group_size", self.group_size),
                *quotas.items(),
            )
            if value < 1
        ]
        total = sum(quotas.values())
        if total > self.n_max:
            names = " + ".join(quotas)
            errors.append(f"{names} = {total} exceeds n_max = {self.n_max}: no pool could ever resolve; raise n_max")
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
