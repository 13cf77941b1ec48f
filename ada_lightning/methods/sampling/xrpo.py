"""XRPO: each further response goes where it narrows the knowledge of a pass rate most (arXiv:2510.06672, section 3.1).

Claim: the half-width ``h(n) = t_{1-a/2, n-1} s / sqrt(n)`` of a prompt's confidence interval shrinks by ``h(n) -
h(n+1)`` with one more response; that gain, and a bonus ``lambda ln(1 + T) / n`` for prompts that have few, is its
priority. Assumption: rewards are near enough to normal for Student's t. Degenerate case: rewards that are all equal
have s = 0, so only the bonus speaks for such a prompt; with lambda = 0 it gets nothing until all others are full.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import stdev

from scipy.stats import t as student_t

from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.checked import Check, at_least
from ada_lightning.methods.sampling.marginal_gain import allocate_by_gain
from ada_lightning.methods.sampling.planned import StagedSampler


def xrpo_priority(num_sampled: int, spread: float, total: int, *, significance: float, exploration: float) -> float:
    """Priority of one more response for a prompt with n rewards of standard deviation s, in a step with T so far.

    Example:
        >>> round(xrpo_priority(4, 0.5, 0, significance=0.05, exploration=0.1), 4)  # 3.182 / 4 - 2.776 / sqrt(20)
        0.1748
    """
    bonus = exploration * math.log1p(total) / max(num_sampled, 1)
    if num_sampled < 2:  # no spread yet
        return bonus
    now, then = (_quantile(n, significance) / math.sqrt(n) for n in (num_sampled, num_sampled + 1))
    return spread * (now - then) + bonus


@lru_cache(maxsize=4096)
def _quantile(num_sampled: int, significance: float) -> float:
    """Student's t that a mean of so many exceeds with half the significance."""
    return float(student_t.ppf(1.0 - significance / 2.0, num_sampled - 1))


@dataclass(kw_only=True, eq=False)
class XrpoSampler(StagedSampler):
    """A pilot for every prompt, then rounds in which every response goes to the prompt of the highest priority.

    Within a round a response that was given counts as drawn, with the spread that the prompt had before the round; the
    next round starts from what was found. The total of a step is met exactly, and equal parts of what the pilots leave
    go to each round.

    Not built: in-context seeding of prompts that have nothing right, which needs solved examples and a model of their
    similarity. The novelty bonus is an advantage of its own: ``advantage=novelty``.

    Source:
        Bamba et al., arXiv:2510.06672. That T counts the responses of the step, and that a round's responses are given
        one by one, is our reading; their code was not to be had.
    """

    num_pilot: int = 4
    responses_per_prompt: int = 8
    num_rounds: int = 2
    """Rounds after the pilot; each waits for all prompts."""
    significance: float = 0.05
    """Of the confidence interval (a)."""
    exploration: float = 0.1
    """Weight of the bonus for prompts with few responses (lambda)."""
    n_max: int = 32
    group_size: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        self.num_stages = 1 + self.num_rounds

    def _checks(self) -> Iterator[Check]:
        yield (
            self.num_pilot >= 2,
            f"num_pilot must be at least 2, so that its rewards have a spread; got {self.num_pilot}",
        )
        yield from super()._checks()
        yield from at_least(1, num_rounds=self.num_rounds)
        yield 0 < self.significance < 1, f"significance must be in (0, 1); got {self.significance}"
        yield (
            0 <= self.exploration < math.inf,
            f"exploration must be 0 (off) or positive, and finite; got {self.exploration}",
        )

    def divide(self, pools: Sequence[ResponsePool], stage: int) -> list[int]:
        """Give the next round's part one by one, by priorities that fall with each; of many rounds some have none."""
        planned = [self._planned[pool.slot] for pool in pools]
        left = (self.responses_per_prompt - self.num_pilot) * len(pools)
        num_responses = left * stage // self.num_rounds - left * (stage - 1) // self.num_rounds
        spreads = [_spread(pool) for pool in pools]
        total = sum(pool.num_sampled for pool in pools)

        def priority(index: int, num_planned: int) -> float:
            num_sampled = pools[index].num_sampled + num_planned - planned[index]
            return xrpo_priority(
                num_sampled, spreads[index], total, significance=self.significance, exploration=self.exploration
            )

        return allocate_by_gain(priority, sum(planned) + num_responses, planned, [self.n_max] * len(pools))


def _spread(pool: ResponsePool) -> float:
    rewards = [response.reward for response in pool.responses]
    return stdev(rewards) if len(rewards) > 1 else 0.0
