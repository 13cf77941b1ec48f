"""XRPO: each further response goes where it narrows the knowledge of a pass rate most (arXiv:2510.06672, section 3.1).

Claim: the half-width ``h(n) = t_{1-a/2, n-1} s / sqrt(n)`` of a prompt's confidence interval shrinks by ``h(n) -
h(n+1)`` with one more response. The priority of a prompt is that gain, and a bonus ``lambda ln(1 + T) / n`` for prompts
that have few. Assumption: rewards are near enough to normal for Student's t. Degenerate case: rewards that are all
equal have s = 0, so only the bonus speaks for such a prompt; with lambda = 0 it gets nothing until all others are full.

Fidelity: after. It follows the paper's first versions: its code, public since version 3, was not to be had.
Demonstrations for unsolved prompts (two solved examples by similarity) are not built. Scale and cap of the novelty
bonus are the paper's; sizes, significance and exploration weight are ours. Rewrites by others read the exploration
bonus as ``ln(1 + T) / n`` or as its root; here it is the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import ResponseGroup, ResponsePool
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.checked import Check, Checked, at_least
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.marginal_gain import allocate_by_gain
from ada_lightning.methods.sampling.planned import StagedSampler
from ada_lightning.methods.selection import AllSelection


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
    from scipy.stats import t as student_t

    return float(student_t.ppf(1.0 - significance / 2.0, num_sampled - 1))


@option("sampler", "xrpo", group_size="${.n_max}")
@dataclass(kw_only=True, eq=False)
class XrpoSampler(StagedSampler):
    """XRPO: a pilot, then rounds in which responses go where they narrow the knowledge of a pass rate most.

    arXiv:2510.06672; every response goes to the prompt of the highest priority. Within a round a response that was
    given counts as drawn, with the spread that the prompt had before the round; the next round starts from what was
    found. The total of a step is met exactly, and equal parts of what the pilots leave go to each round. The sizes
    (``num_pilot``, ``responses_per_prompt``, ``n_max``) are ours.

    Not built: in-context seeding of prompts that have nothing right, which needs solved examples and a model of their
    similarity. The novelty bonus is an advantage of its own: ``advantage=novelty``.

    Source:
        Bamba et al., arXiv:2510.06672. That T counts the responses of the step, and that a round's responses are given
        one by one, is our reading; their code was not to be had.
    """

    num_rounds: int = 2
    """Rounds after the pilot; each waits for all prompts (ours)."""
    significance: float = 0.05
    """Of the confidence interval of a pass rate, the paper's a (value ours)."""
    exploration: float = 0.1
    """Weight of the bonus ``ln(1 + T) / n`` for prompts with few responses, the paper's lambda (value
    ours)."""

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


@option("advantage", "novelty")
@dataclass(kw_only=True, eq=False)
class NoveltyAdvantage(Checked, Advantage):
    """XRPO's novelty bonus on GRPO's advantage: right answers that are less likely than their group count more.

    The bonus is ``min(max(scale (1 - eta), 0), cap A)`` (arXiv:2510.06672, section 3.3). The claim: among a prompt's
    right answers the unlikely ones widen what the policy can do. Assumption: the mean log-probability of a token says
    how novel an answer is. Degenerate: answers that are all equally likely get no bonus, and neither do wrong ones; a
    group of equal rewards has no advantage that could be raised.

    Let s(y) be the mean of an answer's token log-probabilities, as the engine drew them, and m the mean of s over the
    kept group. Then ``eta = exp(s(y) - m)`` is below 1 for an answer that is less likely than its group.
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    scale: float = 2.5
    """Of the bonus, per unit of 1 - exp(difference of mean log-probabilities) (paper: 2.5)."""
    cap: float = 0.5
    """Largest bonus, as a share of the advantage (paper: 0.5)."""
    normalize_std: bool = True
    """Divide by the group's standard deviation, as GRPO does."""

    def _checks(self) -> Iterator[Check]:
        for name, value in (("scale", self.scale), ("cap", self.cap)):
            yield 0 <= value < math.inf, f"advantage.{name} must be 0 or positive, and finite; got {value}"

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return the advantages, bonus included."""
        plain = GroupNormalizedAdvantage(normalize_std=self.normalize_std).of_group(group)
        scores = np.array([fmean(kept.response.sampled_logprobs or [0.0]) for kept in group.kept])
        novelty = self.scale * (1.0 - np.exp(scores - scores.mean()))
        is_right = np.array([kept.response.is_positive for kept in group.kept]) & (plain > 0)
        return plain + np.where(is_right, np.clip(novelty, 0.0, self.cap * np.abs(plain)), 0.0)


XRPO = known(
    Recipe(
        name="xrpo",
        card=Card(
            table="responses",
            changes="rounds by gain in confidence and exploration; a bonus for novelty",
            cost="8 on average, three waits",
            fidelity="after",
            departs=(
                "From the paper's first versions: its code, public since version 3, was not available. The gain is "
                "that in a t interval. Demonstrations for unsolved prompts (two solved examples by similarity) are not "
                "built. Scale 2.5 and cap 0.5 of the bonus are the paper's. Sizes, significance and exploration weight "
                "are ours. Rewrites by others read the exploration bonus as ln(1 + T) / n or as its root; here it is "
                "the first."
            ),
        ),
        checked=Comparison(
            rule="a round's division",
            against="brute force",
            test="unit/methods/sampling/test_staged.py::test_a_round_is_the_best_division_by_brute_force",
        ),
        text="""
            Sends responses where they narrow the knowledge of a pass rate most (after XRPO, arXiv:2510.06672). Right
            answers that are less likely than their group count more. The in-context seeding of prompts that have
            nothing right is left out. It is made from the paper: its code (UIUC-MLSys/XRPO), public since version 3,
            was not available.
        """,
        sampler=XrpoSampler,
        selection=AllSelection,
        advantage=NoveltyAdvantage,
    )
)
