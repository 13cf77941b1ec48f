"""Whether choosing prompts pays: a trial half and half, then choosing under watch, or uniform order for a while.

A group with a right and b wrong responses gives ``a b / (a + b)`` comparisons
(:mod:`ada_lightning.core.stopping.outcomes` says why that is the measure). Its cost is its generated tokens plus
``cost_ratio`` times its trained ones. The control's *going rate* is its comparisons per unit of cost over past steps,
fading. What a group is *worth* is its comparisons minus what its cost gives at that rate. On average chosen groups are
worth more than control groups exactly if their rate is better.

    TRIAL    half control, half chosen, at most 96 steps   better -> CHOSEN; worse, or time is up -> UNIFORM
    CHOSEN   a tenth control                               worse -> UNIFORM
    UNIFORM  no choice                                     after a wait that doubles each time -> TRIAL

The k-th trial may err with probability ``6 alpha / (pi k)^2``; over all trials these sum to at most alpha.

Source:
    Ours, on the bets of :mod:`ada_lightning.methods.curriculum.betting`. How often it errs, how long it takes and
    what it costs: ``python -m research.studies.auto_simulation``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ada_lightning.methods.curriculum.betting import Bet

LONGEST_TRIAL = 96
"""Steps (ours)."""
FIRST_WAIT = 32
"""Steps; doubled at each bad end, so twice this after the first (ours)."""
WATCH_SHARE = 0.1
"""Control groups while it chooses (ours)."""
FADING = 0.98
"""Of the going rate, per step (ours)."""
COST_CAP = 4.0
"""A group's tokens count up to so many times those of the mean control group: bets need a bound (ours)."""
RATIOS = tuple(1.0 + 0.1 * tenth for tenth in range(11))
"""Tried for "chosen groups are at least so many times as good"."""


class Mode(StrEnum):
    """What a step's prompts are: see the module."""

    TRIAL = "trial"
    CHOSEN = "chosen"
    UNIFORM = "uniform"


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What one group gave, and what it cost."""

    num_positive: int
    num_negative: int
    generated: float
    """Tokens generated for it."""
    trained: float
    """Tokens of it that trained; 0 where all rewards were equal."""

    @property
    def comparisons(self) -> float:
        """``a b / (a + b)``; 0 without responses."""
        return self.num_positive * self.num_negative / max(self.num_positive + self.num_negative, 1)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of mode, with the figures that it was decided by."""

    before: Mode
    after: Mode
    reason: str
    """A sentence for people."""


@dataclass(slots=True)
class _Sums:
    """Comparisons and tokens of groups, of the latest ones most."""

    comparisons: float = 0.0
    generated: float = 0.0
    trained: float = 0.0
    groups: float = 0.0

    def rate(self, cost_ratio: float) -> float:
        """Comparisons per unit of cost; 0 where there are none."""
        cost = self.generated + cost_ratio * self.trained
        return self.comparisons / cost if cost > 0 else 0.0

    def add(self, results: Sequence[GroupResult]) -> None:
        self.comparisons = FADING * self.comparisons + sum(result.comparisons for result in results)
        self.generated = FADING * self.generated + sum(result.generated for result in results)
        self.trained = FADING * self.trained + sum(result.trained for result in results)
        self.groups = FADING * self.groups + len(results)

    def values(self) -> list[float]:
        return [self.comparisons, self.generated, self.trained, self.groups]


def bound(
    rate: float,
    cost_ratio: float,
    group_size: int,
    cost_cap: float,
    ratio: float = 1.0,
    *,
    trains_equal: bool = False,
) -> float:
    """Return what a block's difference stays below in size.

    Args:
        rate: going rate, in comparisons per unit of cost.
        cost_ratio: cost of a trained token in generated ones.
        group_size: responses of a complete group, at least 2 (n).
        cost_cap: most tokens that count for a group.
        ratio: how many times as good chosen groups are under the hypothesis.
        trains_equal: a group without a comparison may train, too.

    Example:
        >>> round(bound(0.125, 3.0, 4, 448 / 208), 6)
        1.326923
    """
    most = (group_size // 2) * ((group_size + 1) // 2) / group_size
    least = 0.0 if trains_equal else (group_size - 1) / group_size  # of a group that trains

    def lowest(rate: float) -> float:
        return min(-rate * cost_cap, least - rate * cost_cap * (1.0 + cost_ratio))

    # A group that costs nothing reaches `most`, one that costs most `lowest`.
    return max(most - ratio * lowest(rate), ratio * most - lowest(ratio * rate)) * (1.0 + 1e-12)


@dataclass(kw_only=True, slots=True)
class Trial:
    """The state of the decision; what the next step is made of follows from it alone.

    Args:
        alpha: chance of ever choosing, over all trials, though it never pays; in (0, 1).
    """

    alpha: float = 0.05
    mode: Mode = Mode.TRIAL
    number: int = 1
    """Of the trial, from 1."""
    since: int = 0
    """Steps in this mode."""
    wait: int = FIRST_WAIT
    """Steps of the latest or next time without a choice, before it doubles."""
    better: Bet = field(default_factory=Bet)
    worse: Bet = field(default_factory=lambda: Bet(sign=-1))
    ratios: list[Bet] = field(default_factory=lambda: [Bet() for _ in RATIOS])
    """Bets that chosen groups are so many times as good, of the latest trial."""
    ratio_low: float = 0.0
    """The largest of :data:`RATIOS` that was shown in the latest trial; 0: none yet."""
    control: _Sums = field(default_factory=_Sums)
    chosen: _Sums = field(default_factory=_Sums)
    trains_equal: bool = False
    """Whether a group without a comparison has trained: rewards may differ below the threshold."""
    given: float = 0.0
    """Comparisons of all groups of the run."""
    expected: float = 0.0
    """What their cost would have given at the control's rate."""

    def num_control(self, num_prompts: int) -> int:
        """Return how many of a step's prompts are drawn uniformly.

        Args:
            num_prompts: of the step (P), at least 2.

        Example:
            >>> [Trial(mode=mode).num_control(32) for mode in Mode]
            [16, 3, 32]
        """
        if self.mode is Mode.UNIFORM:
            return num_prompts
        return max(1, num_prompts // 2 if self.mode is Mode.TRIAL else round(WATCH_SHARE * num_prompts))

    @property
    def allowed(self) -> float:
        """What this trial may err with: ``6 alpha / (pi k)^2``."""
        return 6.0 * self.alpha / (math.pi * self.number) ** 2

    @property
    def gain(self) -> float:
        """Comparisons of the run so far, over those that uniform order would have given for the same cost."""
        return self.given / self.expected if self.expected > 0 else 1.0

    def ratio(self, cost_ratio: float) -> float:
        """How many times as good chosen groups were lately; 0 where it is not known. No bound: see ``ratio_low``."""
        control = self.control.rate(cost_ratio)
        return self.chosen.rate(cost_ratio) / control if control > 0 else 0.0

    def observe(
        self,
        chosen: Sequence[GroupResult],
        control: Sequence[GroupResult],
        *,
        cost_ratio: float,
        group_size: int,
        generator: random.Random,
    ) -> Change | None:
        """Learn from a step, and return the change of mode that it brings, if any.

        Args:
            chosen: groups of prompts that were chosen.
            control: groups of prompts that were drawn uniformly.
            cost_ratio: cost of a trained token in generated ones; fixed before the step.
            group_size: responses of a complete group (n). Groups with fewer are left out of the bets.
            generator: deals the chosen groups out to the blocks; seeded by run and step.
        """
        self.trains_equal |= any(result.trained and not result.comparisons for result in (*chosen, *control))
        if self.control.groups > 0:  # the first step has no going rate yet: it only gives one
            self._bet(chosen, control, cost_ratio, group_size, generator)
        self.control.add(control)
        if chosen:
            self.chosen.add(chosen)
        rate = self.control.rate(cost_ratio)
        for result in (*chosen, *control):
            self.given += result.comparisons
            self.expected += rate * (result.generated + cost_ratio * result.trained)
        self.since += 1
        return self._decide(cost_ratio)

    def _bet(
        self,
        chosen: Sequence[GroupResult],
        control: Sequence[GroupResult],
        cost_ratio: float,
        group_size: int,
        generator: random.Random,
    ) -> None:
        whole = [
            [group for group in kind if group.num_positive + group.num_negative == group_size]
            for kind in (chosen, control)
        ]
        num_blocks = min(len(kind) for kind in whole)
        if num_blocks == 0:
            return
        for kind in whole:
            generator.shuffle(kind)
        rate, cap = self.control.rate(cost_ratio), COST_CAP * self.control.generated / self.control.groups
        gave_K, cost_K = _columns(whole[0], cost_ratio, cap)
        gave_C, cost_C = _columns(whole[1][:num_blocks], cost_ratio, cap)
        block_K = np.arange(len(gave_K)) % num_blocks

        def mean_of_blocks(worth_K: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.bincount(block_K, worth_K) / np.bincount(block_K)

        worth_C = gave_C - rate * cost_C
        most_at = partial(bound, rate, cost_ratio, group_size, cap, trains_equal=self.trains_equal)
        for ratio, bet in zip(RATIOS, self.ratios, strict=True):
            differences = mean_of_blocks(gave_K - ratio * rate * cost_K) - ratio * worth_C
            bet.settle(differences.tolist(), most_at(ratio))
            if bet.log_wealth >= -math.log(self.allowed):
                self.ratio_low = max(self.ratio_low, ratio)
        differences, most = mean_of_blocks(gave_K - rate * cost_K) - worth_C, most_at()
        self.better.settle(differences.tolist(), most)
        self.worse.settle(differences.tolist(), most)

    def _decide(self, cost_ratio: float) -> Change | None:
        is_worse = self.worse.log_wealth >= -math.log(self.alpha)
        seen = f"lately {self.ratio(cost_ratio):.2f} times the comparisons of uniform ones, for the same cost"
        if self.mode is Mode.TRIAL:
            if self.better.log_wealth >= -math.log(self.allowed):
                return self._go(Mode.CHOSEN, f"chosen prompts are worth more ({seen})")
            if is_worse:
                return self._go(Mode.UNIFORM, f"chosen prompts are worth less ({seen})")
            if self.since >= LONGEST_TRIAL:
                return self._go(Mode.UNIFORM, f"no difference was shown in {LONGEST_TRIAL} steps ({seen})")
        elif self.mode is Mode.CHOSEN:
            if is_worse:
                return self._go(Mode.UNIFORM, f"chosen prompts have become worth less ({seen})")
            self.worse.forgive()
        elif self.since >= self.wait:
            return self._go(Mode.TRIAL, f"{self.wait} steps without a choice are over")
        return None

    def _go(self, after: Mode, reason: str) -> Change:
        change = Change(self.mode, after, reason)
        if after is Mode.UNIFORM:
            self.wait *= 2
        if after is Mode.TRIAL:
            self.number += 1
            self.ratios, self.ratio_low, self.chosen = [Bet() for _ in RATIOS], 0.0, _Sums()
        self.better, self.worse = Bet(), Bet(sign=-1)
        self.mode, self.since = after, 0
        return change

    def state_dict(self) -> dict[str, Any]:
        """All that decides later steps, as JSON holds it; alpha is a setting."""
        return {
            "mode": str(self.mode),
            "number": self.number,
            "since": self.since,
            "wait": self.wait,
            "better": self.better.state_dict(),
            "worse": self.worse.state_dict(),
            "ratios": [bet.state_dict() for bet in self.ratios],
            "ratio_low": self.ratio_low,
            "control": self.control.values(),
            "chosen": self.chosen.values(),
            "trains_equal": self.trains_equal,
            "given": self.given,
            "expected": self.expected,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.mode = Mode(state["mode"])
        self.number, self.since, self.wait = state["number"], state["since"], state["wait"]
        self.better, self.worse = Bet.from_state(state["better"]), Bet.from_state(state["worse"])
        self.ratios, self.ratio_low = [Bet.from_state(bet) for bet in state["ratios"]], state["ratio_low"]
        self.control, self.chosen = _Sums(*state["control"]), _Sums(*state["chosen"])
        self.trains_equal = state.get("trains_equal", False)  # a checkpoint of before has none
        self.given, self.expected = state["given"], state["expected"]


def _columns(
    results: Sequence[GroupResult], cost_ratio: float, cap: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Comparisons and cost of each group, tokens counted up to the cap."""
    gave = np.array([result.comparisons for result in results])
    cost = np.array([min(result.generated, cap) + cost_ratio * min(result.trained, cap) for result in results])
    return gave, cost
