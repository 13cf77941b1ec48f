"""How long a response becomes and whether it is right, decided by its request's seed alone.

Every schedule asks with the same seeds (``seed_requests``), so schedules are compared on identical responses.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ada_lightning.core.records import Generation
from ada_lightning.rollout.engines.scripted import NEGATIVE_TOKEN, POSITIVE_TOKEN


@dataclass(frozen=True, slots=True)
class Fate:
    """What will become of one request."""

    num_tokens: int
    """Response length, the end-of-sequence token included."""
    is_positive: bool
    is_truncated: bool
    """The response would have gone on."""

    def generation(self, request_id: str) -> Generation:
        """What the engine returns: a first token that tells the verdict, then padding."""
        return Generation(
            request_id=request_id,
            response_ids=_tokens(POSITIVE_TOKEN if self.is_positive else NEGATIVE_TOKEN, self.num_tokens),
            sampling_logprobs=(),
            is_truncated=self.is_truncated,
        )


@dataclass(frozen=True)
class Fates:
    """Draws fates: a coin with the prompt's pass rate, then a lognormal length, cut at the limit."""

    pass_rates: Mapping[int, float]
    median_tokens: float
    sigma: float
    wrong_length_ratio: float = 1.0

    def draw(self, prompt_ids: Sequence[int], max_new_tokens: int, seed: int) -> Fate:
        """Decide one response."""
        generator = random.Random(seed)
        is_positive = generator.random() < self.pass_rates[prompt_ids[0]]
        median = self.median_tokens * (1.0 if is_positive else self.wrong_length_ratio)
        length = max(1, round(median * math.exp(self.sigma * generator.gauss(0, 1))))
        return Fate(min(length, max_new_tokens), is_positive, length > max_new_tokens)


@lru_cache(maxsize=8192)  # responses of one length and verdict share their tokens: memory, not meaning
def _tokens(verdict: int, num_tokens: int) -> tuple[int, ...]:
    return (verdict,) + (0,) * (num_tokens - 1)
