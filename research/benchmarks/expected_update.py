"""What an update expects to be, for a sampler, a selection rule and an estimator: exact sums, and real collections.

A prompt's update is ``sum over kept responses of A_i s_i`` with scores s. The classes have means ``grad p / p`` and
``-grad p / q`` of their scores, and stopping looks at classes only, so the expected update is ``grad p`` times

    multiplier = E[ sum of A over kept positives ] / p - E[ sum of A over kept negatives ] / q,

and for independent scores of unit norm its noise is ``E[ sum of A^2 ]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, Sampler, Selection
from ada_lightning.core.records import Belief, Prompt, Response, ResponseGroup, ResponsePool
from ada_lightning.core.stopping.paths import path_sums
from ada_lightning.core.stopping.rule import StoppingRule
from research.drive import advantages, collect_scripted


@dataclass(frozen=True)
class ExpectedUpdate:
    """Of one prompt with a given pass rate."""

    multiplier: float
    """Factor on grad p."""
    noise: float
    """``E[sum of A^2]``."""
    num_sampled: float
    """Responses drawn."""

    @property
    def noise_per_signal(self) -> float:
        """Relative variance of the update times the responses it took: lower learns more from a response."""
        return self.noise * self.num_sampled / self.multiplier**2 if self.multiplier else math.inf


@dataclass(frozen=True)
class Ends:
    """Every way a method's sampling can end, and what it does there: sums over the kept responses of a prompt.

    Shapes ``(E,)``. A group without signal is not computed at all: it keeps nothing.
    """

    positives_E: NDArray[np.float64]
    negatives_E: NDArray[np.float64]
    paths_E: NDArray[np.float64]
    """Orders of responses that end there, times ``2^-(P+Q)``."""
    positive_sums_E: NDArray[np.float64]
    """Sum of A over kept positives."""
    negative_sums_E: NDArray[np.float64]
    positive_squares_E: NDArray[np.float64]
    """Sum of A^2 over kept positives."""
    negative_squares_E: NDArray[np.float64]
    positive_kept_E: NDArray[np.float64]
    """Kept positives."""
    negative_kept_E: NDArray[np.float64]

    def probabilities(self, pass_rate: float) -> NDArray[np.float64]:
        """Return the probability of each end for a prompt of this pass rate, 0 and 1 included."""
        powers_E = (2 * pass_rate) ** self.positives_E * (2 * (1.0 - pass_rate)) ** self.negatives_E
        probability_E: NDArray[np.float64] = self.paths_E * powers_E
        return probability_E


@dataclass(frozen=True)
class Method:
    """A sampler, what it keeps, and how that is weighted."""

    name: str
    sampler: Sampler
    selection: Selection
    advantage: Advantage
    scale: float = 1.0
    """Constant the update is multiplied by: published rules average over the group, ours add up."""
    belief: Belief = field(default_factory=Belief)

    def empty_pool(self, slot: int = 0) -> ResponsePool:
        """Return a pool before its first response, planned for."""
        pool = ResponsePool(Prompt(f"p{slot}", (), prompt_ids=(slot,)), slot, belief=self.belief)
        self.sampler.plan([pool])
        return pool

    def rule(self) -> StoppingRule:
        """Return the stopping rule of this method's prompts."""
        rule = self.sampler.end(self.empty_pool()).rule
        if rule is None:
            raise ValueError(f"{self.name}: no stopping rule of counts, so there is nothing to sum over")
        return rule


class ExactUpdates:
    """Expected updates of a method at any pass rate, summed over every way its sampling can end."""

    def __init__(self, method: Method) -> None:
        rule = method.rule()
        num_first = method.sampler.num_to_draw(method.empty_pool())
        ends, groups = [], []
        for first_positives in range(num_first + 1):
            start = first_positives, num_first - first_positives
            from_start = path_sums(rule, {start: float(math.comb(num_first, first_positives))})
            for positives, negatives in np.argwhere(from_start > 0):
                end = int(positives), int(negatives)
                if rule.stops(*end):
                    ends.append((*end, from_start[end]))
                    groups.append(_group(method, end, start, rule))
        self.ends = Ends(*np.array(ends, dtype=np.float64).T, *_class_sums(method, groups))

    def at(self, pass_rate: float) -> ExpectedUpdate:
        """Return the expected update of a prompt with this pass rate, strictly between 0 and 1."""
        probability_E, outcomes_QE = self._outcomes(pass_rate)
        return ExpectedUpdate(*map(float, outcomes_QE @ probability_E))

    def standard_deviation_at(self, pass_rate: float) -> ExpectedUpdate:
        """Return how much one prompt's factor, squares and responses vary."""
        probability_E, outcomes_QE = self._outcomes(pass_rate)
        means_Q = outcomes_QE @ probability_E
        return ExpectedUpdate(*map(float, np.sqrt((outcomes_QE - means_Q[:, None]) ** 2 @ probability_E)))

    def _outcomes(self, pass_rate: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Probability of each end, and there: factor on grad p, sum of squares, responses. Shapes (E,), (3, E)."""
        ends = self.ends
        pull_E = ends.positive_sums_E / pass_rate - ends.negative_sums_E / (1.0 - pass_rate)
        squares_E = ends.positive_squares_E + ends.negative_squares_E
        return ends.probabilities(pass_rate), np.stack([pull_E, squares_E, ends.positives_E + ends.negatives_E])


def measure_updates(
    methods: Sequence[Method], pass_rates: Sequence[float], *, prompts_per_rate: int, seed: int = 0
) -> dict[tuple[str, float], ExpectedUpdate]:
    """Run the real collector with scripted responses and weigh what it kept: means over prompts of one pass rate.

    Methods that share sampler and selection are weighed on the same collections.

    Returns:
        Means by (name of the method, pass rate).
    """
    collections: dict[tuple[int, int, Belief], Sequence[ResponseGroup]] = {}
    measured = {}
    for method in methods:
        key = id(method.sampler), id(method.selection), method.belief
        if key not in collections:
            collections[key] = _collect(method, pass_rates, prompts_per_rate, seed)
        rows: dict[float, list[tuple[float, float, float]]] = {rate: [] for rate in pass_rates}
        groups = collections[key]
        of_positives_G, of_negatives_G, *squares = _class_sums(method, groups)[:4]
        squares_G = squares[0] + squares[1]
        for index, group in enumerate(groups):
            rate = pass_rates[group.pool.prompt.prompt_ids[0]]
            pull = of_positives_G[index] / rate - of_negatives_G[index] / (1 - rate)
            rows[rate].append((pull, squares_G[index], group.pool.num_drawn))
        for rate, values in rows.items():
            measured[method.name, rate] = ExpectedUpdate(*map(float, np.mean(values, axis=0)))
    return measured


def _collect(method: Method, pass_rates: Sequence[float], per_rate: int, seed: int) -> Sequence[ResponseGroup]:
    prompts = [
        Prompt(f"p{index}", (), prompt_ids=(index,)) for index in range(len(pass_rates)) for _ in range(per_rate)
    ]
    groups, _ = collect_scripted(
        prompts,
        pass_rates,
        method.sampler,
        selection=method.selection,
        num_polls=lambda generator, is_positive: 3 if is_positive else 1,  # completion order must not matter
        seed=seed,
        beliefs=[method.belief] * len(prompts),
    )
    return groups


def _group(method: Method, end: tuple[int, int], start: tuple[int, int], rule: StoppingRule) -> ResponseGroup:
    """One pool that ended at ``end`` after a first round that led to ``start``."""
    pool = method.empty_pool()
    first = [True] * start[0] + [False] * start[1]
    later = [True] * (end[0] - start[0]) + [False] * (end[1] - start[1])
    for index, is_positive in enumerate(first + later):
        pool.add(scripted_response(index, is_positive=is_positive, round_index=0 if index < len(first) else 1))
    pool.rule = rule
    return ResponseGroup(pool, method.selection.select(pool))


def scripted_response(index: int, *, is_positive: bool, round_index: int) -> Response:
    """Return a response of one token."""
    return Response(
        prompt_id="p0",
        sample_index=index,
        round_index=round_index,
        response_ids=(int(is_positive),),
        sampling_logprobs=(-0.5,),
        text="",
        is_truncated=False,
        reward=float(is_positive),
        is_positive=is_positive,
        policy_version=0,
    )


def _class_sums(method: Method, groups: Sequence[ResponseGroup]) -> NDArray[np.float64]:
    """Per group, over kept positives and over kept negatives: sums of A, sums of A^2, and how many. Shape ``(6, G)``.

    0 for a group without signal: such a group is not computed at all.
    """
    sums = np.zeros((6, len(groups)))
    with_signal = [index for index, group in enumerate(groups) if group.trained]
    if not with_signal:
        return sums
    advantages_B = method.scale * advantages(method.advantage, [groups[index] for index in with_signal])
    kept_B = [(index, kept.response) for index in with_signal for kept in groups[index].kept]
    class_B = np.array([0 if response.is_positive else 1 for _, response in kept_B])
    group_B = np.array([index for index, _ in kept_B])
    for row, values_B in enumerate((advantages_B, advantages_B**2, np.ones_like(advantages_B))):
        np.add.at(sums, (2 * row + class_B, group_B), values_B)
    return sums
