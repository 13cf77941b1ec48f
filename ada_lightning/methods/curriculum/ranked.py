"""Curricula that prefer some prompts: candidates, a ranking by what is believed of them, a share for all in turn."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.options import option, preset, use
from ada_lightning.core.protocols import Curriculum, PromptEmbedding, Recall, Usefulness
from ada_lightning.core.records import Belief, Prompt
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.curriculum.uniform import epoch_positions
from ada_lightning.methods.estimators import WordEmbedding

Array = NDArray[np.float64]

_FEWEST_CANDIDATES = 2
"""Per prompt of a step. A chunk of two epochs can hold a prompt twice: at least half of it is distinct."""
_NUM_QUANTILES = 64
_QUANTILES_Q = (np.arange(_NUM_QUANTILES) + 0.5) / _NUM_QUANTILES
"""A mean over these is the expectation under a Beta distribution to within 0.001 for ``p (1 - p)``."""


@dataclass(kw_only=True, eq=False)
class RankedCurriculum(Checked, Curriculum, ABC):
    """The best of a step's candidates, and a few prompts whatever is believed of them.

    The candidates are the next chunk of a walk through shuffled epochs, ``candidate_ratio`` per prompt of the step.
    So no prompt comes more than ``candidate_ratio + revisit_ratio`` times as often as in uniform order, and no step is
    made of the same few favourites as the one before. A second walk fills ``revisit_ratio`` of all places. It comes by
    every prompt at least once in ``2 N / (revisit_ratio P)`` steps (N training prompts, P per step). So no prompt is
    abandoned because of an old belief while the policy learns, and unseen prompts get known. No prompt
    comes twice in a step while there are enough of them, nor the copies that a mixture makes of it while there are
    other candidates.

    All of it is a function of step, seed and what is remembered, and holds no state of its own.

    Raises:
        ValueError: a value outside its range; all in one message.

    Source:
        The best of the candidates by what history says of them: MoPPS, arXiv:2507.04632. Candidates from epochs, which
        bound how often a prompt comes, and the share in turn are ours.
    """

    needs_history = True

    candidate_ratio: float = 4
    """Candidates per prompt of a step, from shuffled epochs; bounds how often a prompt comes. As many as there are
    prompts or more: all are candidates."""
    revisit_ratio: float = 0.1
    """Share of all places, in the long run exactly, that goes to all prompts in turn; with 0 a prompt can be lost for
    good."""

    @abstractmethod
    def worth(self, beliefs: Sequence[Belief], generator: random.Random) -> Array:
        """Return how good each candidate is, the best the largest. Shape ``(C,)``."""

    @abstractmethod
    def _preference(self) -> str:
        """Say what is preferred, for messages."""

    def _checks(self) -> Iterator[Check]:
        yield (
            _FEWEST_CANDIDATES <= self.candidate_ratio < math.inf,
            f"curriculum.candidate_ratio must be at least {_FEWEST_CANDIDATES} and finite, so that there is something "
            f"to choose from; got {self.candidate_ratio}",
        )
        yield 0 <= self.revisit_ratio <= 1, f"curriculum.revisit_ratio must be in [0, 1]; got {self.revisit_ratio}"

    def look_at(self, candidates: Sequence[Prompt], prompts: Sequence[Prompt]) -> None:
        """See the candidates themselves, just before they are ranked, and all training prompts; most need neither."""

    def rank(self, beliefs: Sequence[Belief], generator: random.Random) -> list[int]:
        """Return the indices of the candidates, the best first. They come in random order, and ties keep it."""
        order: list[int] = np.argsort(-self.worth(beliefs, generator), kind="stable").tolist()
        return order

    def choose(
        self, prompts: Sequence[Prompt], num_prompts: int, *, step: int, seed: int, recall: Recall
    ) -> list[Prompt]:
        """Return the step's prompts, shuffled. ``recall`` is asked about the candidates only."""
        return [prompts[position] for position, _ in self._places(prompts, num_prompts, step, seed, recall)]

    def num_candidates(self, num_prompts: int) -> int | None:
        """Return ``candidate_ratio`` times as many: of a stream each comes once, chosen or passed over."""
        return int(self.candidate_ratio * num_prompts)

    def _places(
        self, prompts: Sequence[Prompt], num_prompts: int, step: int, seed: int, recall: Recall
    ) -> list[tuple[int, bool]]:
        """The step's prompts, shuffled: the position of each among all, and whether it came in turn."""
        in_turn: set[int] = set()
        num_whole, num_left = divmod(num_prompts, len(prompts))
        chosen = list(range(len(prompts))) * num_whole
        if num_left:
            turn = self._revisited(len(prompts), num_left, step, seed)
            walked = dict.fromkeys([*turn, *self._candidates(len(prompts), num_left, step, seed)])
            places: dict[str, int] = {}
            for position in walked:
                places.setdefault(prompts[position].prompt_id, position)
            first = set(places.values())
            revisited = [position for position in turn if position in first]
            candidates = [position for position in walked if position in first and position not in turn]
            # A mixture lists a prompt several times.
            repeats = [position for position in walked if position not in first]
            listed = [prompts[position] for position in candidates]
            self.look_at(listed, prompts)
            ranked = self.rank(recall(listed), random.Random(f"{seed}/rank/{step}"))
            best = [*(candidates[index] for index in ranked), *repeats]
            chosen += [*revisited, *best[: num_left - len(revisited)]]
            in_turn = set(revisited)
        random.Random(f"{seed}/mix/{step}").shuffle(chosen)
        return [(position, position in in_turn) for position in chosen]

    def caveat(self) -> str:
        """What is preferred, and within which bounds."""
        return (
            f"curriculum: {self._preference()}; a prompt counts by how often it is chosen, "
            f"{self.revisit_ratio:g} to {self.candidate_ratio + self.revisit_ratio:g} times as often as in uniform "
            "order, so the objective is the mean of f(p) with these weights"
        )

    def _revisited(self, total: int, num_prompts: int, step: int, seed: int) -> dict[int, None]:
        per_step = self.revisit_ratio * num_prompts
        first, end = int(step * per_step), int((step + 1) * per_step)  # a part of a place waits for the next step
        count = min(end - first, num_prompts)  # rounding must not make a step overflow
        return dict.fromkeys(epoch_positions(total, first, count, f"{seed}/revisit"))

    def _candidates(self, total: int, num_prompts: int, step: int, seed: int) -> dict[int, None]:
        count = min(total, int(self.candidate_ratio * num_prompts))
        return dict.fromkeys(epoch_positions(total, step * count, count, f"{seed}/candidates"))


@option("curriculum", "difficulty_band")
@dataclass(kw_only=True, eq=False)
class DifficultyBand(RankedCurriculum):
    """Prompts whose believed pass rate lies in a band, and those never seen; then the nearest to the band.

    Needs an estimator that remembers prompts: beta_history, ema, window or similar_prompts.

    How the unseen are explored: one of them is chosen as readily as one in the band, whatever is expected of it, so a
    run begins in uniform order, and what it does not know gets rarer by itself. Put behind the band, half of the
    prompts would never be tried: a step's candidates soon hold enough that are known to be good. What leaves the band
    is not lost: the share in turn visits it again and again, and its belief follows. Within the band no prompt is
    preferred.

    Source:
        Bae et al., "Online difficulty filtering for reasoning oriented reinforcement learning", arXiv:2504.03380, keep
        prompts with pass rates in a band after sampling them; here history decides before. The default bounds are ours,
        wide because adaptive sampling reaches harder prompts than fixed groups do.

    Example:
        >>> hard, unseen, even = Belief(1, 31, is_seen=True), Belief(), Belief(8, 8, is_seen=True)
        >>> DifficultyBand().rank([hard, unseen, even], random.Random(0))
        [1, 2, 0]
    """

    low: float = 0.1
    """Lowest believed pass rate of the band (ours)."""
    high: float = 0.9
    """Highest (ours)."""

    def _checks(self) -> Iterator[Check]:
        yield (
            0 <= self.low < self.high <= 1,
            f"curriculum.low and curriculum.high must be 0 <= low < high <= 1; got {self.low} and {self.high}",
        )
        yield from super()._checks()

    def worth(self, beliefs: Sequence[Belief], generator: random.Random) -> Array:
        """Nearness to the band; that of the unseen is that of the band itself."""
        return np.array([-self._distance(belief) if belief.is_seen else 0.0 for belief in beliefs])

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``share_in_band``: of prompts seen before and believed to lie in the band."""
        in_band = sum(belief.is_seen and self._distance(belief) == 0 for belief in beliefs)
        return {"share_in_band": in_band / max(len(beliefs), 1)}

    def _preference(self) -> str:
        return f"prompts with a believed pass rate in [{self.low:g}, {self.high:g}], and prompts never seen, come first"

    def _distance(self, belief: Belief) -> float:
        """Of the believed pass rate from the band; 0 inside."""
        return max(self.low - belief.mean, belief.mean - self.high, 0.0)


@option("curriculum", "posterior", choices={"usefulness": "signal_per_response"})
@dataclass(kw_only=True, eq=False)
class PosteriorSampling(RankedCurriculum):
    """Thompson sampling: draws a pass rate from each candidate's Beta belief and takes the most useful draws.

    Needs an estimator that remembers prompts: beta_history, ema, window or similar_prompts.

    A candidate is chosen about as probably as it is one of the best, so what is uncertain gets explored by itself. A
    prompt never seen draws from the prior. One seen long ago draws from counts that have faded only as far as its
    estimator lets them (per visit, not per step); the share in turn makes up for that.

    Source:
        Thompson 1933; for prompts MoPPS, Qu et al., arXiv:2507.04632, which ranks by the distance of the draw from 1/2:
        the same order as that of :class:`~ada_lightning.methods.curriculum.usefulness.Learnability`.
    """

    usefulness: Usefulness
    """What a pass rate is worth."""

    def worth(self, beliefs: Sequence[Belief], generator: random.Random) -> Array:
        """Draw once per candidate, in their order, and return what the draws are worth."""
        return np.array(self.usefulness([generator.betavariate(belief.alpha, belief.beta) for belief in beliefs]))

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``usefulness``: mean over the prompts, each at its expected pass rate."""
        values = self.usefulness([belief.mean for belief in beliefs])
        return {"usefulness": sum(values) / max(len(values), 1)}

    def _preference(self) -> str:
        return f"prompts with the highest {type(self.usefulness).__name__} of a pass rate drawn from history come first"


preset(
    "curriculum",
    "learnability",
    "posterior",
    text="curriculum=posterior with usefulness p (1 - p): the prompts whose responses will probably differ.",
    choices={"usefulness": "learnability"},
)


@option("curriculum", "expected", choices={"usefulness": "learnability"})
@dataclass(kw_only=True, eq=False)
class ExpectedUsefulness(RankedCurriculum):
    """The prompts with the largest expected usefulness, by what is believed of their pass rates; nothing is drawn.

    For ``estimator=similar_prompts``, which tells prompts apart before they were sampled: with counts alone all prompts
    never seen are the same.

    A draw explores (``curriculum=posterior``, ``learnability``): what is learned of a prompt pays when it comes back.
    Where prompts come once or a few times there is little to explore for, and beliefs about prompts never sampled are
    wide, so that draws from them rank little better than chance. What exploration there has to be, candidates from
    epochs and the share in turn see to.

    Source:
        Ours. What it gains: ``python -m research.studies.field.fresh``.
    """

    usefulness: Usefulness
    """What a pass rate is worth."""

    def worth(self, beliefs: Sequence[Belief], generator: random.Random) -> Array:
        """Expected usefulness, to 9 digits: what differs by rounding alone is a tie."""
        return self._expected(beliefs).round(9)

    def figures(self, beliefs: Sequence[Belief]) -> Mapping[str, float]:
        """``usefulness``: what was expected of the prompts, their mean."""
        return {"usefulness": float(self._expected(beliefs).mean()) if beliefs else 0.0}

    def _expected(self, beliefs: Sequence[Belief]) -> Array:
        from scipy.special import betaincinv

        alpha_C = np.array([belief.alpha for belief in beliefs])
        beta_C = np.array([belief.beta for belief in beliefs])
        rates_CQ = betaincinv(alpha_C[:, None], beta_C[:, None], _QUANTILES_Q)
        values_C: Array = np.reshape(self.usefulness(rates_CQ.ravel().tolist()), rates_CQ.shape).mean(axis=1)
        return values_C

    def _preference(self) -> str:
        return f"prompts with the highest expected {type(self.usefulness).__name__} come first"


@option("curriculum", "diverse", choices={"usefulness": "learnability"}, embedding=use(WordEmbedding))
@dataclass(kw_only=True, eq=False)
class DiverseUsefulness(ExpectedUsefulness):
    """``curriculum=expected``, and prompts of a step unlike each other (after GPS, arXiv:2602.01970).

    Takes candidates one after the other, each the one with the largest ``u + weight * distance``. u is the expected
    usefulness and the distance the Euclidean one to the nearest candidate taken before. Beliefs that rest on like
    prompts (``estimator=similar_prompts``) make whole clusters of prompts look useful at once; a step of one cluster
    learns from one kind of prompt. With weight 0 it is ``curriculum=expected``.

    Source:
        After GPS, which adds the spread within a batch, and the distance to earlier batches, to what it chooses by; its
        weight and distance are not known here, and earlier batches are left out.
    """

    embedding: PromptEmbedding
    """Where prompts lie: WordEmbedding, or sentence_encoder.SentenceEncoder with a path, but none that needs the
    policy; fitted to all training prompts when it is first asked."""
    weight: float = 0.05
    """Of a distance of 1 between prompts, in units of usefulness, such as p (1 - p) (ours)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._is_fitted = False
        self._places_CH: Array = np.empty((0, 0))

    def _checks(self) -> Iterator[Check]:
        yield 0 <= self.weight < math.inf, f"curriculum.weight must be 0 or positive, and finite; got {self.weight}"
        yield (
            not self.embedding.needs_policy,
            "curriculum.embedding must work without the policy; use WordEmbedding or SentenceEncoder; got "
            f"{type(self.embedding).__name__}",
        )
        yield from super()._checks()

    def num_candidates(self, num_prompts: int) -> None:
        """Refuse streams: the embedding is fitted to all training prompts."""

    def look_at(self, candidates: Sequence[Prompt], prompts: Sequence[Prompt]) -> None:
        """Find out where the candidates lie."""
        if not self._is_fitted:
            self.embedding.fit(prompts)
            self._is_fitted = True
        if candidates:
            self._places_CH = self.embedding(candidates, _no_policy).numpy().astype(np.float64)

    def rank(self, beliefs: Sequence[Belief], generator: random.Random) -> list[int]:
        """Take them greedily, all of them; of equal ones the earlier."""
        return greedily_spread(self._expected(beliefs), self._places_CH, self.weight) if beliefs else []

    def _preference(self) -> str:
        return f"{super()._preference()}, preferably unlike each other"


def greedily_spread(values_C: Array, places_CH: Array, weight: float) -> list[int]:
    """Order candidates by value plus weighted distance to the nearest one before them; the first by value alone.

    Args:
        values_C: what each is worth.
        places_CH: where each lies.
        weight: of a distance of 1.

    Example:
        >>> greedily_spread(np.array([0.0, -0.01, -0.04]), np.array([[0.0], [0.1], [1.0]]), 0.1)
        [0, 2, 1]
    """
    gaps_C = np.full(len(values_C), np.inf)
    is_left_C = np.ones(len(values_C), dtype=bool)
    order: list[int] = []
    for _ in range(len(values_C)):
        worth_C = values_C + weight * gaps_C if order else values_C
        chosen = int(np.argmax(np.where(is_left_C, worth_C.round(9), -np.inf)))
        order.append(chosen)
        is_left_C[chosen] = False
        gaps_C = np.minimum(gaps_C, np.linalg.norm(places_CH - places_CH[chosen], axis=1))
    return order


def _no_policy(prompts: Sequence[Prompt]) -> NoReturn:
    raise RuntimeError("curriculum.embedding needs the policy, which a curriculum does not have")
