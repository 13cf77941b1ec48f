"""C-GRPO: sample until one answer alone is as frequent as it has to be, by a threshold calibrated with right answers.

Rule: take budgets such as 2, 4, 8, 16, 32. A prompt stops at the first k after which a share of at least q_k of its k
    responses gives the same answer. The conformal prediction set of its answers is then a single one.
Calibration: q_k is the ``ceil((n + 1) (1 - delta))``-th smallest score of n prompts drawn to the last budget. A score
    is the share of answers more frequent than the right one, plus a uniform part of its own, and 1 if the right one is
    absent.
Assumption: prompts are exchangeable with those of the calibration, and the policy has not moved since. At one fixed k
    the set then holds the right answer with probability 1 - delta; at the first k of several that is not promised.
Degenerate: with a strict delta every threshold is 1, so two equal answers stop and anything else runs to the end, which
    is SPEED with 2 and 30. A policy whose answers are not found always pays the last budget.
Fidelity: after (package ``trl-cgrpo`` 0.2.0). It calibrates on the prompts of the first steps and again after every 50,
    which count as drawn and train; the package on held-out prompts that do not train, left out of the saving it shows.
    Answers decide the stop, so the pool is biased in a way that no count shows.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ada_lightning.core.options import option
from ada_lightning.core.protocols import PoolEnd, Sampler, Trait
from ada_lightning.core.records import Response, ResponsePool
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.checked import Check, Checked, at_least
from ada_lightning.methods.recipe import Card, Comparison, Recipe, known
from ada_lightning.methods.sampling.blocks import DRAWS_PER_RESPONSE
from ada_lightning.methods.selection import AllSelection

_MARGIN, _DELTAS = 0.05, (0.05, 0.95)
_SEED_OF_TIES = "cgrpo"


@option("sampler", "cgrpo")
@dataclass(kw_only=True, eq=False)
class CGrpoSampler(Checked, Sampler):
    """C-GRPO's exit: blocks until one answer is as frequent as a calibrated threshold asks (trl-cgrpo 0.2.0).

    The reward must tell answers. Stopping where answers agree costs most where they do not. Agreement is not looked at
    by reward, but where responses agree GRPO has no gradient, so what is spent goes to prompts that have one; the pool
    is biased by stopping, and no rule of counts says how.

    A calibration draws every prompt of its steps to the last budget until ``num_calibration`` prompts are measured, at
    the start of the run and again after every ``recalibrate_every`` steps. These responses are drawn within steps, so
    they count in every figure and budget, and they train. The authors calibrate on held-out prompts that do not train,
    outside of the rollouts that they count, and refit delta and thresholds on the same scores as here.

    Source:
        The package ``trl-cgrpo`` 0.2.0 (``AryaFayyazi/CGRPO`` at 78a6183, ``integrations/trl_cgrpo``), for its score
        ``aps``. Right answers are those that the grader takes, here; equal to the reference as texts, there.

    Example:
        >>> sampler = CGrpoSampler(budgets=(2, 4), group_size=4, num_calibration=1, recalibrate_every=50)
        >>> sampler.load_state_dict({"thresholds": [1.0, 0.5], "scores": [], "steps_left": 50})
        >>> agreement(["A", "A", "B", "C"]) >= sampler.thresholds[1]
        True
    """

    traits = frozenset({Trait.READS_ANSWERS})

    budgets: Sequence[int] = (2, 4, 8, 16, 32)
    """Numbers of responses after which a prompt may stop, ascending; the last is the most it gets (package: the same).
    """
    group_size: int = 32
    """Most responses kept for the update; the last budget: all (selection=all)."""
    num_calibration: int = 128
    """Prompts whose scores make thresholds (authors' README: about 128)."""
    recalibrate_every: int = 50
    """Steps from one calibration to the next; 0: one for the whole run (package: 50)."""
    delta: float | None = None
    """Share of prompts whose right answer the set may miss. None: that which the policy does not solve within the last
    budget, plus 0.05, within [0.05, 0.95], found anew at every calibration (package: None)."""
    thresholds: tuple[float, ...] = field(init=False, default=())
    """By budget; empty while a calibration is under way."""
    _scores: tuple[tuple[float, ...], ...] = field(init=False, repr=False, default=())
    _steps_left: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.samples_per_round = max(b - a for a, b in zip((0, *self.budgets), self.budgets, strict=False))

    @property
    def most_per_prompt(self) -> int:
        """The last budget."""
        return self.budgets[-1]

    def _checks(self) -> Iterator[Check]:
        grid = list(self.budgets)
        is_grid = bool(grid) and grid[0] >= 1 and grid == sorted({*grid})
        yield is_grid, f"budgets must be ascending numbers of responses, from 1; got {grid}"
        yield from at_least(1, group_size=self.group_size, num_calibration=self.num_calibration)
        yield (
            not is_grid or self.group_size <= grid[-1],
            f"group_size = {self.group_size} exceeds the last budget {grid[-1] if grid else 0}: no pool could fill it",
        )
        yield (
            self.recalibrate_every >= 0,
            f"recalibrate_every must be 0 (once) or positive; got {self.recalibrate_every}",
        )
        yield self.delta is None or 0 < self.delta < 1, f"delta must be in (0, 1), or null; got {self.delta}"

    @property
    def n_max(self) -> int:
        """Most responses of a prompt."""
        return self.budgets[-1]

    def num_to_draw(self, pool: ResponsePool) -> int:
        """Up to the next budget; to the last one in a calibration. Responses that are no evidence are drawn anew."""
        known = pool.num_sampled
        if known >= self.n_max or self._agrees(pool):
            return 0
        following = next(budget for budget in self.budgets if budget > known) if self.thresholds else self.n_max
        return min(following - known, self.samples_per_round, DRAWS_PER_RESPONSE * self.n_max - pool.num_drawn)

    def end(self, pool: ResponsePool) -> PoolEnd:
        """Say whether one answer is settled; no rule of counts decides."""
        return PoolEnd(is_resolved=not self.thresholds or self._agrees(pool))

    def _agrees(self, pool: ResponsePool) -> bool:
        if not self.thresholds or pool.num_sampled not in self.budgets:
            return False
        threshold = self.thresholds[list(self.budgets).index(pool.num_sampled)]
        share = agreement([response.answer for response in pool.responses])
        return share > 0 and share >= threshold

    def learn(self, pools: Sequence[ResponsePool]) -> None:
        """Collect scores while a calibration is under way, else count the steps to the next one."""
        if self.thresholds:
            self._steps_left -= 1
            if self._steps_left == 0:
                self.thresholds = ()
            return
        if any(self._was_stopped(pool) for pool in pools):
            return  # drawn before the calibration began, as with rollout.max_staleness: what agreed is missing
        whole = [pool for pool in pools if pool.num_sampled >= self.n_max]
        self._scores += tuple(
            tuple(
                score(pool.responses[:budget], random.Random(f"{_SEED_OF_TIES}/{pool.step}/{pool.slot}/{budget}"))
                for budget in self.budgets
            )
            for pool in whole
        )
        if len(self._scores) >= self.num_calibration:
            delta = self.delta or allowed_misses([row[-1] for row in self._scores])
            self.thresholds = tuple(conformal_quantile(column, delta) for column in zip(*self._scores, strict=True))
            self._scores, self._steps_left = (), self.recalibrate_every

    def _was_stopped(self, pool: ResponsePool) -> bool:
        """Whether answers ended a pool: in a calibration only the last budget and the limit on draws do."""
        return pool.num_sampled < self.n_max and pool.num_drawn < DRAWS_PER_RESPONSE * self.n_max

    def state_dict(self) -> dict[str, Any]:
        """Thresholds, what a calibration has so far, and the steps to the next."""
        scores = [list(row) for row in self._scores]
        return {"thresholds": list(self.thresholds), "scores": scores, "steps_left": self._steps_left}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.thresholds = tuple(map(float, state.get("thresholds", ())))
        self._scores = tuple(tuple(map(float, row)) for row in state.get("scores", ()))
        self._steps_left = int(state.get("steps_left", 0))

    def caveat(self) -> str:
        """Say what it does to the pool."""
        return (
            "sampler: a prompt stops where its answers agree, so its pool is biased in a way that counts of right and "
            "wrong do not show, and nothing undoes that"
        )


def agreement(answers: Sequence[str | None]) -> float:
    """Share of the responses that give the most frequent answer; None gives none, and counts in the denominator.

    Example:
        >>> agreement(["A", None, "A", "B"])
        0.5
    """
    votes = Counter(answer for answer in answers if answer is not None)
    return max(votes.values(), default=0) / max(len(answers), 1)


def score(responses: Sequence[Response], generator: random.Random) -> float:
    """How far down the answers by frequency the right one stands: mass before it, and a uniform part of its own.

    Right responses are one answer, whatever they wrote. Answers as frequent as it come before or after it at random,
    every order being as likely. 1 where nothing is right.
    """
    num_right = sum(response.is_positive for response in responses)
    if not num_right:
        return 1.0
    others = Counter(
        response.answer for response in responses if not response.is_positive and response.answer is not None
    )
    place = generator.random()
    ahead = sum(
        votes for votes in others.values() if votes > num_right or (votes == num_right and generator.random() < place)
    )
    return min((ahead + generator.random() * num_right) / len(responses), 1.0)


def conformal_quantile(scores: Sequence[float], delta: float) -> float:
    """Return the ``ceil((n + 1) (1 - delta))``-th smallest of n scores, or the largest where that is more than n.

    In floating point, as the package computes it: a product that is whole up to rounding upwards gives the next rank.

    Example:
        >>> conformal_quantile([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], 0.2)
        0.8
    """
    rank = math.ceil((len(scores) + 1) * (1.0 - delta))
    return sorted(scores)[min(max(rank, 1), len(scores)) - 1]


def allowed_misses(scores: Sequence[float]) -> float:
    """Return the delta for scores at the last budget: 1 - share solved + 0.05, within [0.05, 0.95].

    Example:
        >>> round(allowed_misses([0.1, 0.2, 0.3, 1.0, 1.0]), 4)  # three of five are solved
        0.45
    """
    solved = sum(score < 1.0 - 1e-9 for score in scores) / len(scores)
    low, high = _DELTAS
    return min(max(1.0 - solved + _MARGIN, low), high)


CGRPO = known(
    Recipe(
        name="cgrpo",
        card=Card(
            table="responses",
            changes="draws until one answer is frequent enough, by calibrated thresholds",
            needs="rewards that tell answers",
            cost="2 to 32, and 32 in calibrations",
            fidelity="after",
            departs=(
                "After the package `trl-cgrpo` 0.2.0. Thresholds are calibrated with right answers, on the prompts of "
                "the first steps and again after every 50. These responses count as drawn, and they train. The package "
                "calibrates on held-out prompts that do not train, and leaves them out of the saving it shows. Answers "
                "decide the stop, so the pool is biased in a way that no count shows. With strict thresholds it is "
                "SPEED with 2 and 30."
            ),
        ),
        checked=Comparison(
            rule="golden numbers of the package, and where it stops over all histories of three answers",
            against="by hand",
            test="unit/methods/sampling/test_cgrpo.py::test_golden_numbers_of_the_package",
        ),
        text="""
            Stops sampling a prompt once one answer is frequent enough: C-GRPO's exit (package trl-cgrpo 0.2.0) on GRPO.
            A prompt stops at 2, 4, 8, 16 or 32 responses, by a threshold calibrated with right answers. The package
            calibrates on held-out prompts and leaves that out of the saving it shows. Here calibrations are steps that
            draw 32 responses of every prompt, and they count: 128 prompts first, and again after every 50 steps. With
            its strict setting (delta small, weak policy) it is SPEED with 2 and 30. Compare rollout/num_sampled with
            that of other methods.
        """,
        sampler=CGrpoSampler,
        selection=AllSelection,
        advantage=GroupNormalizedAdvantage,
    )
)
