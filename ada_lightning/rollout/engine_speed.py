"""How long an engine takes for a rollout, from two that were timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ada_lightning.core.step_records import RolloutResult


@dataclass(frozen=True, slots=True)
class EngineSpeed:
    """Seconds of an engine step: some whatever runs, and some for each sequence.

    Memory bandwidth, launches and Python make the first, arithmetic the second, so a few sequences take nearly as long
    as many where the first is large. Slow work that is spread over a rollout (graders, other processes) is in both.
    """

    seconds_per_step: float
    """Of each engine step, in which every running sequence gets a token."""
    seconds_per_token: float
    """On top, for each sequence that runs."""
    num_slots: int
    """Sequences that run at once."""

    @classmethod
    def fitted(cls, timed: Sequence[RolloutResult], num_slots: int) -> EngineSpeed:
        """Fit rollouts of one block a prompt that left no request waiting, of few and of many responses.

        Least squares with neither part below 0, which noise could make one. The engine was warm.

        Raises:
            ValueError: none was timed.
        """
        if not timed:
            raise ValueError("the speed of an engine needs at least one timed rollout")
        steps_and_tokens = [[longest_response(result), result.stats.generated_tokens] for result in timed]
        (per_step, per_token), _ = nnls(np.array(steps_and_tokens, float), [result.stats.seconds for result in timed])
        return cls(float(per_step), float(per_token), num_slots)

    def rollout_seconds(
        self, num_responses: float, *, response_tokens: float, longest: float, num_rounds: float
    ) -> tuple[float, float]:
        """Return the least seconds that a rollout takes, and those without any drawing ahead.

        At least, all slots are taken until the end, or the longest response is alone to the end. At most, the prompt
        with the most rounds gets its first slot when no other is waiting any more, and all its rounds are as long as
        the longest response.

        Args:
            num_responses: of the rollout.
            response_tokens: mean length of a response.
            longest: tokens of the longest.
            num_rounds: blocks that a prompt draws one after another, of the prompt with the most of them.

        Example:
            >>> speed = EngineSpeed(seconds_per_step=0.5, seconds_per_token=0.125, num_slots=4)
            >>> speed.rollout_seconds(4, response_tokens=8, longest=10, num_rounds=1)  # 10 steps, 32 tokens
            (9.0, 9.0)
            >>> speed.rollout_seconds(8, response_tokens=8, longest=10, num_rounds=3)  # 16 to 38 steps, 64 tokens
            (16.0, 27.0)
        """
        work_s = self.seconds_per_token * num_responses * response_tokens
        full_steps = num_responses * response_tokens / self.num_slots
        waiting_steps = max(0.0, num_responses - self.num_slots) * response_tokens / self.num_slots
        return (
            work_s + self.seconds_per_step * max(longest, full_steps),
            work_s + self.seconds_per_step * (waiting_steps + num_rounds * longest),
        )


def longest_response(result: RolloutResult) -> int:
    """Tokens of the longest response of a rollout: the engine steps that it took at least."""
    lengths = [response.num_tokens for group in result.groups for response in group.pool.responses]
    return max(lengths, default=0)
