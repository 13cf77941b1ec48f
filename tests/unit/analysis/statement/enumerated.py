"""The expected update of a step, summed over everything that chance decides in it: which responses come, which coins.

A response is one of a few symbols, drawn by a softmax, so the score of symbol k is ``e_k - policy``. What is added up
is what each symbol weighs in expectation; whoever asks multiplies by the scores of the policy that trains.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace

import numpy as np

from ada_lightning.core.protocols import PoolEnd
from ada_lightning.core.records import Belief, KeptResponse, Outcome, Prompt, ResponseGroup, ResponsePool, Verdict
from ada_lightning.core.step import Step
from ada_lightning.core.step_records import StepSettings
from ada_lightning.core.stopping import StoppingRule
from ada_lightning.methods.published import pruning
from ada_lightning.methods.sampling import cut, giving_up
from ada_lightning.methods.sampling.blocks import BlockSampler
from ada_lightning.methods.selection import AllSelection, thinned

FLIPPING = (cut, giving_up, pruning, thinned)
"""Modules that leave something to chance beside the responses."""


@dataclass(frozen=True)
class Symbol:
    """A response."""

    is_right: bool
    is_truncated: bool = False
    num_tokens: int = 1


@dataclass(frozen=True)
class End:
    """All ways in which the sampling of a prompt can end with a pool that looks the same."""

    pool: ResponsePool
    looks: object
    """What is different in pools that are not treated alike."""
    counted: tuple[int, ...]
    """Symbols of the responses that may train, in launch order."""
    ways: list[tuple[tuple[int, ...], float]] = field(default_factory=list)
    """Of each way, how often each symbol was drawn, whatever became of it, and the probability of its coins."""

    def probability(self, policy: np.ndarray) -> float:
        """Of any of the ways, where symbols are drawn by a policy."""
        counts_WK, coins_W = np.array([counts for counts, _ in self.ways]), np.array([coins for _, coins in self.ways])
        return float(np.prod(policy**counts_WK, axis=1) @ coins_W)


class Chance:
    """Goes once through everything that can happen; begun again, another way."""

    def __init__(self) -> None:
        self._path: list[list[int]] = []
        self._begin()

    def _begin(self) -> None:
        self._at, self.probability, self._fallen = 0, 1.0, {}

    def ways(self):
        """Yield once for each way; ask :meth:`pick` and flip coins in between."""
        while True:
            yield self
            while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
                self._path.pop()
            if not self._path:
                return
            self._path[-1][0] += 1
            self._begin()

    def pick(self, number: int) -> int:
        """Return each of so many choices in turn."""
        if self._at == len(self._path):
            self._path.append([0, number])
        self._at += 1
        return self._path[self._at - 1][0]

    def is_below(self, coin: object, threshold: float) -> bool:
        """Whether a uniform number is below a threshold: one coin always falls the same way."""
        if coin not in self._fallen:
            chances = [min(max(share, 0.0), 1.0) for share in (threshold, 1.0 - threshold)]
            sides = [side for side, chance in zip((True, False), chances, strict=True) if chance > 0]
            self._fallen[coin] = sides[self.pick(len(sides))]
            self.probability *= chances[not self._fallen[coin]]
        return self._fallen[coin]

    def module(self) -> SimpleNamespace:
        """Stand in for the module ``random``."""
        return SimpleNamespace(Random=partial(_Scripted, self))


class _Scripted:
    def __init__(self, chance: Chance, key: str) -> None:
        self._chance, self._key, self._asked = chance, key, 0

    def random(self) -> _Uniform:
        self._asked += 1
        return _Uniform(self._chance, (self._key, self._asked))


class _Uniform:
    def __init__(self, chance: Chance, coin: object) -> None:
        self._chance, self._coin = chance, coin

    def __lt__(self, threshold: float) -> bool:
        return self._chance.is_below(self._coin, threshold)

    def __ge__(self, threshold: float) -> bool:
        return not self._chance.is_below(self._coin, threshold)


class scripted_chance:  # noqa: N801 - a context
    """Hand every coin to a :class:`Chance`."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def __enter__(self) -> None:
        for module in FLIPPING:
            module.random = self._chance.module()

    def __exit__(self, *exception: object) -> None:
        for module in FLIPPING:
            module.random = random


def ends(
    sampler, beliefs: Sequence[Belief], target: int, symbols: Sequence[Symbol], settings: StepSettings
) -> list[End]:
    """Return how one prompt of a step can end. The others' responses are right and wrong in turn."""
    prompts = [Prompt(f"p{number}", (), prompt_ids=(number,)) for number in range(len(beliefs))]
    found: dict[object, End] = {}
    chance = Chance()
    with scripted_chance(chance):
        for _ in chance.ways():
            drawn: list[int] = []
            step = Step(prompts, sampler=sampler, selection=AllSelection(), settings=settings, beliefs=beliefs)
            while not step.is_complete:
                for request in step.ask():
                    if request.slot == target:
                        drawn.append(chance.pick(len(symbols)))
                        symbol = symbols[drawn[-1]]
                    else:
                        symbol = Symbol(is_right=request.sample_index % 2 == 0)
                    step.tell(request, _outcome(symbol, request.max_new_tokens, settings, drawn[-1:]))
            pool = step.finish()[target].pool
            counted = tuple(drawn[each.sample_index] for each in pool.trainable())
            looks = _looks(pool), counted
            counts = tuple(drawn.count(symbol) for symbol in range(len(symbols)))
            found.setdefault(looks, End(pool, looks, counted)).ways.append((counts, chance.probability))
    return list(found.values())


def _looks(pool: ResponsePool) -> object:
    """Return what a selection or an advantage may go by."""
    responses = tuple(
        (each.is_positive, each.is_masked, each.round_index > 0, each.num_tokens, each.inverse_probability)
        for each in (*pool.responses, *pool.short)
    )
    belief = pool.belief.alpha, pool.belief.beta, pool.belief.is_seen
    return responses, pool.num_sampled, belief, pool.rule, pool.is_resolved, pool.inverse_probability


def _outcome(symbol: Symbol, limit: int | None, settings: StepSettings, identity: Sequence[int]) -> Outcome:
    is_cut = limit is not None and symbol.num_tokens > limit
    length, is_truncated = (limit, True) if is_cut else (symbol.num_tokens, symbol.is_truncated)
    grade = Verdict(reward=0.0)
    if settings.asks_grader(is_truncated=is_truncated, is_cut_short=is_cut):
        reward = float(symbol.is_right)
        grade = Verdict(reward, answer="right" if symbol.is_right else "wrong", components={"correct": reward})
    ids = tuple(identity or (0,)) * length
    return Outcome("x", ids, (-0.5,) * length, is_truncated, grade)


Kept = list[tuple[float, tuple[KeptResponse, ...]]]
"""What a selection may keep of an end, and the probability of the coins that make it do so."""


def weights(
    ends: Sequence[End],
    selection,
    advantage,
    num_symbols: int,
    known: dict[object, dict[int, tuple[float, float]]],
    kept: dict[object, tuple[ResponsePool, Kept]],
) -> np.ndarray:
    """What each symbol weighs at each end, in expectation over the coins of the selection.

    Args:
        ends: of a prompt.
        selection: what is kept.
        advantage: what that weighs.
        num_symbols: K.
        known: ends of the same selection and advantage that were weighed before; grows.
        kept: ends of the same selection that were asked for before; grows.

    Returns:
        Sums over what a prompt keeps, and means over it. Shape ``(2, E, K)``.
    """
    sums_2EK = np.zeros((2, len(ends), num_symbols))
    for row, end in enumerate(ends):
        if end.looks not in known:
            if end.looks not in kept:
                kept[end.looks] = end.pool, _kept(end.pool, selection)
            known[end.looks] = _weights_by_place(*kept[end.looks], advantage)
        for place, values in known[end.looks].items():
            sums_2EK[:, row, end.counted[place]] += values
    return sums_2EK


def _kept(pool: ResponsePool, selection) -> Kept:
    chance = Chance()
    with scripted_chance(chance):
        return [(chance.probability, tuple(kept)) for _ in chance.ways() for kept in selection.select_all([pool])]


def _weights_by_place(pool: ResponsePool, ways: Kept, advantage) -> dict[int, tuple[float, float]]:
    found: dict[int, tuple[float, float]] = {}
    places = {each.sample_index: place for place, each in enumerate(pool.trainable())}
    for probability, kept in ways:
        (values,) = advantage.weigh([ResponseGroup(pool, kept)])
        for each, value in zip(kept, values, strict=True):
            place = places[each.response.sample_index]
            total, mean = found.get(place, (0.0, 0.0))
            found[place] = total + probability * value, mean + probability * value / len(kept)
    return found


def probabilities(ends: Sequence[End], policy: np.ndarray) -> np.ndarray:
    """Of each end. Shape ``(E,)``."""
    chances_E = np.array([end.probability(policy) for end in ends])
    assert math.isclose(math.fsum(chances_E), 1.0, abs_tol=1e-12), "these are not all ways"
    return chances_E


def scores(policy: np.ndarray) -> np.ndarray:
    """Row k: the gradient of log policy(k)."""
    return np.eye(len(policy)) - policy


@dataclass(frozen=True)
class Contrast(StoppingRule):
    """Stop at one of each class, asked at any time."""

    samples_per_round: int
    n_max: int

    def stops(self, num_positive: int, num_negative: int) -> bool:
        return num_positive + num_negative >= self.n_max or min(num_positive, num_negative) > 0


@dataclass(frozen=True)
class ContrastBetweenBlocks(Contrast):
    """The same, asked between blocks."""

    def stops(self, num_positive: int, num_negative: int) -> bool:
        num_sampled = num_positive + num_negative
        is_complete = num_sampled % self.samples_per_round == 0
        return num_sampled >= self.n_max or (is_complete and super().stops(num_positive, num_negative))


@dataclass(kw_only=True, eq=False)
class OwnSampler(BlockSampler):
    """One that nobody shipped."""

    rule: type[StoppingRule]
    group_size: int = 2
    samples_per_round: int = 2
    n_max: int = 4

    def end(self, pool: ResponsePool) -> PoolEnd:
        return PoolEnd(self.rule(self.samples_per_round, self.n_max))
