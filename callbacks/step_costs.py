"""What a step costs, from what an engine and an update were seen to take and what the sampler will ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ada_lightning.methods.sampling.forecast import Forecast, mean_forecast
from ada_lightning.rollout.engine_speed import EngineSpeed


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCosts:
    """What the preview measured, to turn a forecast of responses into tokens and seconds."""

    engine: EngineSpeed
    response_tokens: float
    """Mean tokens of a response that the model draws."""
    computed_share: float
    """Tokens of a response that an update computes over those: above 1 where an environment adds its own."""
    longest_response: int
    """Tokens."""
    prompt_tokens: float
    """Mean length of a prompt."""
    update_tokens_per_s: float
    """Of all passes of an update over a token."""
    share_prompts: bool
    """Whether the update computes a prompt once for all of its responses."""

    def row(self, name: str, steps: Sequence[Forecast], num_prompts: int) -> str:
        """Return a line of the preview: a step of ``num_prompts`` prompts."""
        expected = mean_forecast(steps)
        num_responses = expected.num_sampled * num_prompts
        rollout_s = self.engine.rollout_seconds(
            num_responses,
            response_tokens=self.response_tokens,
            longest=self.longest_response,
            num_rounds=expected.num_rounds,
        )
        update_s = [num_prompts * self._trained_tokens(step) / self.update_tokens_per_s for step in steps]
        num_tokens = num_responses * self.response_tokens
        return (
            f"  {name:<12}{num_responses:>10.0f}{num_tokens:>9.0f}{seconds_text(rollout_s):>12}"
            f"{seconds_text(_most(update_s)):>12}{share_text(_most([step.signal_ratio for step in steps])):>9}"
        )

    def _trained_tokens(self, expected: Forecast) -> float:
        return trained_tokens(
            expected,
            prompt_tokens=self.prompt_tokens,
            response_tokens=self.response_tokens * self.computed_share,
            share_prompts=self.share_prompts,
        )


def _most(values: Sequence[float]) -> tuple[float, float]:
    """Where four in five of the values lie."""
    low, high = np.quantile(values, (0.1, 0.9))
    return float(low), float(high)


def trained_tokens(expected: Forecast, *, prompt_tokens: float, response_tokens: float, share_prompts: bool) -> float:
    """Return how many tokens of a prompt and its responses the update computes, once; lengths are means."""
    num_prompts = expected.trained_ratio if share_prompts else expected.num_trained
    return num_prompts * prompt_tokens + expected.num_trained * response_tokens


def seconds_text(interval: tuple[float, float]) -> str:
    """Return the middle of two bounds on seconds that are within a tenth of each other, else both.

    Example:
        >>> seconds_text((2.0, 2.1)), seconds_text((21.3, 29.8)), seconds_text((0.24, 0.95))
        ('2.0s', '21-30s', '0.2-0.9s')
    """
    low, high = interval
    if high <= 1.1 * low:
        return f"{(low + high) / 2:.1f}s"
    digits = 0 if low >= 10 else 1
    return f"{low:.{digits}f}-{high:.{digits}f}s"


def share_text(interval: tuple[float, float]) -> str:
    """Return two bounds on a share, or one where they are hardly apart.

    Example:
        >>> share_text((0.12, 0.45)), share_text((0.98, 1.0))
        ('12-45%', '99%')
    """
    low, high = interval
    if high <= 1.1 * low:
        return f"{(low + high) / 2:.0%}"
    return f"{100 * low:.0f}-{high:.0%}"
