"""One prompt on its way through a rollout step."""

from __future__ import annotations

from dataclasses import dataclass, field

from ada_lightning.core.records import Generation, Grade, ResponsePool


@dataclass(slots=True, eq=False)
class PromptRun:
    """What was launched for a prompt, what came back, and how far its pool is."""

    pool: ResponsePool
    num_launched: int = 0
    """Responses handed to the launcher, those drawn ahead included."""
    round_index: int = -1
    round_of: list[int] = field(default_factory=list)
    """Round of every response that the sampler has asked for."""
    is_waiting: bool = False
    """For the step's budget, or for the other prompts of a round."""
    is_finished: bool = False
    early_risks: list[float] = field(default_factory=list)
    """Responses expected to be dropped, of each block drawn ahead that is not asked for yet."""
    num_drops: int = 0
    """Times that something drawn ahead was dropped: what is drawn again under its number is another request."""
    graded: dict[int, tuple[Generation, str, Grade]] = field(default_factory=dict)
    """Graded responses whose turn in the launch order has not come, by sample index."""
