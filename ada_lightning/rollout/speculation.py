"""Keep the engine busy when few prompts are left: draw what will probably be wanted before it is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Speculation:
    """When to launch a prompt's next block before its last one is decided.

    A hopeless prompt needs ``n_max / samples_per_round`` blocks one after another, and at the end of a step only such
    prompts are left, so an engine that decodes a hundred sequences about as fast as twenty runs mostly empty. What is
    launched early is committed later in launch order, or dropped if the prompt stops first. Every response has its own
    seed, so a rollout with speculation ends with the very same pools as one without.

    Args:
        fill_to: launch early while fewer requests than this are in flight; 0 never does.
        min_chance: only blocks that are wanted with at least this probability, by the prompt's belief and counts.
        max_waste_ratio: nothing more is launched early in a step once the tokens dropped exceed this share of those
            committed.

    Raises:
        ValueError: a value out of range.
    """

    fill_to: int = 0
    min_chance: float = 0.5
    max_waste_ratio: float = 0.1

    def __post_init__(self) -> None:
        """Check the ranges."""
        errors = []
        if self.fill_to < 0:
            errors.append(f"rollout.speculation.fill_to must be 0 (off) or positive; got {self.fill_to}")
        if not 0 < self.min_chance <= 1:
            errors.append(f"rollout.speculation.min_chance must be in (0, 1]; got {self.min_chance}")
        if self.max_waste_ratio < 0:
            errors.append(f"rollout.speculation.max_waste_ratio must not be negative; got {self.max_waste_ratio}")
        if errors:
            raise ValueError("; ".join(errors))


NO_SPECULATION = Speculation()
