"""XRPO: each further response goes where it narrows the knowledge of a pass rate most (arXiv:2510.06672, section 3.1).

Claim: the half-width ``h(n) = t_{1-a/2, n-1} s / sqrt(n)`` of a prompt's confidence interval shrinks by ``h(n) -
h(n+1)`` with one more response; that gain, and a bonus ``lambda ln(1 + T) / n`` for prompts that have few, is its
priority. Assumption: rewards are near enough to normal for Student's t. Degenerate case: rewards that are all equal
have s = 0, so only the bonus speaks for such a prompt; with lambda = 0 it gets nothing until all others are full.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import stdev

from scipy.stats import t as student_t

from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.sampling.planned import PlannedSampler, pilot_errors


def xrpo_priority(num_sampled: int, spread: float, total: int, *, significance: float, exploration: float) -> float:
    """Priority of one more response.

    Args:
        num_sampled: responses of the prompt so far (n).
        spread: standard deviation of their rewards (s).
        total: responses of all prompts so far (T).
        significance: of the confidence interval (a).
        exploration: weight of the bonus (lambda).

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


class XrpoSampler(PlannedSampler):
    """A pilot for every prompt, then rounds in which every response goes to the prompt of the highest priority.

    Within a round a response that was given counts as drawn, with the spread that the prompt had before the round; the
    next round starts from what was found. The total of a step is met exactly, and equal parts of what the pilots leave
    go to each round.

    Not built: in-context seeding of prompts that have nothing right, which needs solved examples and a model of their
    similarity. The novelty bonus is an advantage of its own: ``advantage=novelty``.

    The number of responses depends on rewards and on other prompts, so no rule of counts describes it and
    ``advantage=exact`` does not go with it.

    Args:
        num_pilot: responses of each prompt before the first round; at least 2, to have a spread.
        responses_per_prompt: mean over the prompts of a step, pilots included; times their number it is the total.
        num_rounds: rounds after the pilot; each waits for all prompts.
        significance: of the confidence interval (a).
        exploration: weight of the bonus for prompts with few responses (lambda).
        n_max: most responses per prompt and step.
        group_size: most responses kept for the update; ``n_max`` where all of them train.

    Raises:
        ValueError: a value out of range, or a mean that the bounds cannot meet; all in one message.

    Source:
        Bamba et al., arXiv:2510.06672. That T counts the responses of the step, and that a round's responses are given
        one by one, is our reading; their code was not to be had.
    """

    def __init__(
        self,
        *,
        num_pilot: int = 4,
        responses_per_prompt: int = 8,
        num_rounds: int = 2,
        significance: float = 0.05,
        exploration: float = 0.1,
        n_max: int = 32,
        group_size: int = 32,
    ) -> None:
        why = ", so that its rewards have a spread"
        errors = pilot_errors(num_pilot, responses_per_prompt, n_max, least=2, why=why)
        if num_rounds < 1:
            errors.append(f"num_rounds must be at least 1; got {num_rounds}")
        if not 0 < significance < 1:
            errors.append(f"significance must be in (0, 1); got {significance}")
        if not 0 <= exploration < math.inf:
            errors.append(f"exploration must be 0 (off) or positive, and finite; got {exploration}")
        super().__init__(responses_per_prompt=responses_per_prompt, n_max=n_max, group_size=group_size, errors=errors)
        self.num_pilot = num_pilot
        self.num_rounds = num_rounds
        self.num_stages = 1 + num_rounds
        self.significance = significance
        self.exploration = exploration

    def plan(self, pools: Sequence[ResponsePool], stage: int = 0) -> None:
        """Give every prompt its pilot, then divide the next round's part; of many rounds some may have none."""
        if stage == 0:
            self._planned = {pool.slot: self.num_pilot for pool in pools}
            return
        left = (self.responses_per_prompt - self.num_pilot) * len(pools)
        first, end = (left * rounds // self.num_rounds for rounds in (stage - 1, stage))
        self._divide(pools, end - first)

    def _divide(self, pools: Sequence[ResponsePool], num_responses: int) -> None:
        """Give responses one by one. Priorities fall with each, so no other division has a larger sum of them."""
        total = sum(pool.num_sampled for pool in pools)
        spreads = [_spread(pool) for pool in pools]
        heap = [(-self._priority(pool, 0, spreads[i], total), i, 0) for i, pool in enumerate(pools)]
        heapq.heapify(heap)
        while num_responses > 0:
            _, index, given = heapq.heappop(heap)
            pool = pools[index]
            if self._planned[pool.slot] == self.n_max:
                continue
            self._planned[pool.slot] += 1
            num_responses -= 1
            heapq.heappush(heap, (-self._priority(pool, given + 1, spreads[index], total), index, given + 1))

    def _priority(self, pool: ResponsePool, num_given: int, spread: float, total: int) -> float:
        return xrpo_priority(
            pool.num_sampled + num_given,
            spread,
            total,
            significance=self.significance,
            exploration=self.exploration,
        )


def _spread(pool: ResponsePool) -> float:
    rewards = [response.reward for response in pool.responses]
    return stdev(rewards) if len(rewards) > 1 else 0.0
