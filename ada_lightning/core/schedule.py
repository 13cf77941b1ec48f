"""When a prompt's next block of responses may start."""

from __future__ import annotations

from dataclasses import dataclass

from ada_lightning.core.checks import refuse, unmet
from ada_lightning.core.options import option

_RESERVE = 4
"""At half of the allowed waste a chance of 1/16 still suffices, at nine tenths of it 2/3."""


@option("rollout/schedule", "continuous", fill_to=None)
@dataclass(frozen=True, slots=True)
class Continuous:
    """A prompt goes on as soon as its last block is decided; blocks are drawn ahead while slots would stay empty.

    A hopeless prompt needs ``n_max / samples_per_round`` blocks one after another, and at the end of a step only such
    prompts are left, so an engine that decodes a hundred sequences about as fast as twenty runs mostly empty. Blocks
    that will probably be wanted are therefore drawn ahead. They are committed later in launch order, or dropped if the
    prompt stops first. Every response has its own seed, so a rollout that draws ahead ends with the very same pools as
    one that does not.

    Slots go first to the prompts with the longest expected remaining need. The step cannot end before the longest chain
    of blocks has ended, so that chain must never wait (the rule of longest processing time; Graham 1969, "Bounds on
    multiprocessing timing anomalies").

    Args:
        fill_to: draw ahead while fewer requests than this are in flight; 0 never does, None while any slot stays empty.
        min_chance: draw ahead only blocks that are wanted with at least this probability while the engine is empty; it
            rises to 1 where the engine is full. A nearly empty engine decodes one more sequence for almost nothing, a
            full one for its share of the step. The probability follows from the prompt's belief and what is graded.
        max_waste_ratio: tokens dropped in a step stay below this share of those committed, by what is expected.

    Raises:
        ValueError: a value out of range; all in one message.
    """

    fill_to: int | None = 0
    min_chance: float = 0.1
    max_waste_ratio: float = 0.1

    def __post_init__(self) -> None:
        """Check the ranges."""
        name, waste = "rollout.schedule", self.max_waste_ratio
        refuse(
            *unmet(
                ((self.fill_to or 0) >= 0, f"{name}.fill_to must be 0 (off) or positive", self.fill_to),
                (0 < self.min_chance <= 1, f"{name}.min_chance must be in (0, 1]", self.min_chance),
                (waste >= 0, f"{name}.max_waste_ratio must not be negative", waste),
            )
        )

    def required_chance(self, fullness: float, waste_ratio: float) -> float:
        """Least probability of being wanted for a block to be drawn ahead.

        The last part of the waste that is allowed is kept for blocks that are nearly certain: those of hopeless
        prompts, on which the end of a step waits. Spending all of it early makes that end as slow as without drawing
        ahead (``python -m research.benchmarks.cluster_sim``).

        Args:
            fullness: requests in flight over ``fill_to``.
            waste_ratio: tokens dropped, or expected to be, over those committed or asked for.
        """
        by_waste = waste_ratio / self.max_waste_ratio if self.max_waste_ratio > 0 else 1.0
        return max(self.min_chance + (1.0 - self.min_chance) * fullness, by_waste**_RESERVE)


@option("rollout/schedule", "barrier")
@dataclass(frozen=True, slots=True)
class Barrier:
    """No prompt starts a block before every prompt's block is graded, in the order of the prompts: rounds.

    What the official code does (``ray_trainer.py``, one synchronous generation per round), here without its weight
    sync and re-entry of the engine in every round. Same pools as :class:`Continuous`, later: the baseline to measure
    against.
    """


Schedule = Continuous | Barrier
