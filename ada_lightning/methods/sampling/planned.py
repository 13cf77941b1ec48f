"""What samplers share that plan how many responses each prompt gets."""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.protocols import Sampler
from ada_lightning.core.records import ResponsePool


class PlannedSampler(Sampler):
    """Draws what is planned, all of it at once. Responses that are no evidence are not drawn anew.

    Args:
        responses_per_prompt: mean over the prompts of a step; times their number it is the step's total, met exactly.
        n_max: most responses per prompt and step.
        group_size: most responses kept for the update; ``n_max`` where all of them train.
        errors: what a subclass found wrong with its own arguments.

    Raises:
        ValueError: ``group_size`` out of range, or ``errors``; all in one message.
    """

    def __init__(self, *, responses_per_prompt: int, n_max: int, group_size: int, errors: Sequence[str]) -> None:
        errors = list(errors)
        if not 1 <= group_size <= max(n_max, 1):
            errors.append(f"group_size must be in [1, n_max = {n_max}]; got {group_size}")
        if errors:
            raise ValueError("; ".join(errors))
        self.responses_per_prompt = responses_per_prompt
        self.n_max = n_max
        self.group_size = group_size
        self.samples_per_round = n_max
        self._planned: dict[int, int] = {}
        """Responses in all, by slot."""

    def num_to_draw(self, pool: ResponsePool) -> int:
        """What is missing of the plan so far."""
        return max(0, self._planned[pool.slot] - pool.num_drawn)


def pilot_errors(num_pilot: int, responses_per_prompt: int, n_max: int, *, least: int, why: str = "") -> list[str]:
    """What is wrong with the sizes of a sampler whose pilot is part of a step's total."""
    errors = []
    if num_pilot < least:
        errors.append(f"num_pilot must be at least {least}{why}; got {num_pilot}")
    if not num_pilot <= responses_per_prompt <= n_max:
        errors.append(
            f"responses_per_prompt must lie between num_pilot = {num_pilot}, which it includes, and n_max = "
            f"{n_max}; got {responses_per_prompt}"
        )
    return errors
