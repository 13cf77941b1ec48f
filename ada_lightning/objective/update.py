"""What a trainer's update does to a group of responses, in words that belong to no trainer.

Readers make an :class:`Update` of a configuration file; everything that a card says is computed from it. The stages
follow each other: which rows stay (``filter``), minus a ``baseline``, over a ``divisor``, ``cut`` at bounds,
``whitening`` over the batch, times ``gain``; then ``reduction`` says what each token of a response is multiplied by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class Baseline(Enum):
    """What is subtracted from a response's reward. Values are texts for people."""

    NONE = "nothing"
    GROUP_MEAN = "the mean reward of the group"
    OTHERS_MEAN = "the mean reward of the group's other responses"
    LENGTH_MEAN = "the mean reward of the group, each response counted by its length"
    BATCH_MEAN = "the mean reward of the whole batch"
    RUNNING_MEAN = "a running mean of earlier rewards, of all prompts"
    RUNNER_UP = "the second best reward of the group, and only the best response trains"


class Spread(Enum):
    """What a difference is divided by."""

    NONE = "nothing"
    GROUP = "the standard deviation of the group's rewards"
    OTHERS = "the standard deviation of the other responses' rewards, unless that is 0"
    BATCH_REWARDS = "the standard deviation of all rewards of the batch"
    BATCH_DIFFERENCES = "the standard deviation of all differences of the batch"
    GROUP_MEAN = "the mean reward of the group"
    REWARDED_SHARE = "the share of rewards of the batch that are not 0"


@dataclass(frozen=True)
class Divisor:
    """``spread(ddof) + epsilon``."""

    spread: Spread = Spread.NONE
    ddof: int = 1
    """1: n - 1 below the sum of squares. 0: n."""
    epsilon: float = 0.0


@dataclass(frozen=True)
class Whitening:
    """Over all trained tokens of a batch: minus their mean, over their standard deviation."""

    ddof: int = 1
    epsilon: float = 1e-8
    is_epsilon_inside: bool = True
    """``sqrt(variance + epsilon)``; False: ``sqrt(variance) + epsilon``."""
    divides: bool = True
    """False: only the mean is subtracted."""
    counts_rows: bool = False
    """Each response counts once, not once a token."""


class Keep(Enum):
    """Which groups, or rows, a filter keeps."""

    SPREAD = "groups whose rewards differ"
    MEAN_INSIDE = "groups whose mean reward lies inside of the given range"
    ROW_SPREAD = "responses the others of which have rewards that differ"


@dataclass(frozen=True)
class Filter:
    """Groups that do not train."""

    keep: Keep
    refills: bool
    """Whether others are drawn in their place."""
    low: float = 0.0
    """Of ``Keep.MEAN_INSIDE``; both ends are left out."""
    high: float = 1.0
    note: str = ""
    """What else is to be said of it: a sentence."""
    prefers_fast: bool = False
    """Whether the groups that are done first are taken: a filter by length."""


class Reduction(Enum):
    """What one token's ``advantage * grad log p`` is multiplied by, on policy."""

    RESPONSE_MEAN = "1 / (responses * tokens of its response)"
    TOKEN_MEAN = "1 / (all tokens)"
    CONSTANT = "1 / (responses * a constant length)"
    RESPONSE_SUM = "1 / responses"
    TOKEN_SUM = "1"
    PROMPT_MEAN = "1 / (prompts * tokens of its prompt)"


class Single(Enum):
    """What a group of one response does."""

    RAW = "trains on its raw reward, without a baseline"
    ZERO = "has advantage 0"
    REFUSED = "is refused by the trainer"
    NAN = "gives NaN"
    AS_OTHERS = "is treated like any other response of the batch"


class Missing(Enum):
    """What a response without a reward (None or NaN) does."""

    LEFT_OUT = "is left out of mean and spread, and has advantage 0"
    ZERO = "counts as a reward of 0, and trains"
    POISONS = "turns every advantage of its group into NaN"
    DROPPED = "is dropped, so its group is smaller"
    UNKNOWN = "is not described by this reader"


class Truncated(Enum):
    """What a response that hit the length limit does."""

    KEPT = "trains like any other"
    MASKED = "does not train, yet its reward stays in its group's baseline"
    PENALISED = "trains with a penalty on its reward"


@dataclass(frozen=True)
class Term:
    """Something else that moves the policy."""

    name: str
    coefficient: float
    moves_equal: bool
    """Whether it moves groups whose rewards are equal."""
    note: str = ""


@dataclass(frozen=True)
class Clip:
    """Bounds of a later update's ratio. On policy it is 1, and they do nothing."""

    text: str
    level: str = "token"


@dataclass(frozen=True)
class Visits:
    """How often a prompt is asked, by the last group's mean reward: a weight up to each bound."""

    bounds: tuple[float, ...]
    weights: tuple[float, ...]
    """One more than bounds: the last is for means above all of them."""


@dataclass(frozen=True)
class End:
    """A way in which the sampling of a prompt can end."""

    drawn: int
    """Responses."""
    right: int
    """Of them."""
    orders: int
    """Of right and wrong responses that end here."""

    def chance(self, pass_rate: float) -> float:
        """Return how probable it is."""
        return self.orders * pass_rate**self.right * (1.0 - pass_rate) ** (self.drawn - self.right)


@dataclass(frozen=True)
class Sums:
    """Figures by pass rate that a reader has by itself, where responses decide how many of them are drawn.

    All have one value for each pass rate.
    """

    pass_rates: tuple[float, ...]
    weights: tuple[float, ...]
    """For one response that is drawn at a pass rate of one half."""
    signal: tuple[float, ...]
    """Share of prompts with a right and a wrong response."""
    responses: tuple[float, ...]
    """Drawn for a prompt, on average."""

    def at(self, values: tuple[float, ...], pass_rate: float) -> float:
        """Return the value at one of the pass rates."""
        return values[self.pass_rates.index(pass_rate)]


@dataclass(frozen=True)
class Update:
    """One trainer's update, as its configuration says."""

    group_size: int
    """n: responses of a prompt."""
    baseline: Baseline = Baseline.GROUP_MEAN
    divisor: Divisor = Divisor()
    cut: tuple[float, float] | None = None
    """Bounds of an advantage, before it is whitened."""
    whitening: Whitening | None = None
    filter: Filter | None = None
    gain: float = 1.0
    """Multiplies every advantage on policy."""
    bounds: tuple[float, float] | None = None
    """Advantages are cut to this range, last of all."""
    reduction: Reduction = Reduction.TOKEN_MEAN
    scope: str = "the update"
    """Over what responses and tokens of the reduction are counted."""
    counts_masked: bool = False
    """Whether masked responses stay in the reduction's count of responses or tokens."""
    counts_equal: bool = True
    """Whether groups without a signal stay in it."""
    single: Single = Single.ZERO
    missing: Missing = Missing.UNKNOWN
    truncated: Truncated = Truncated.KEPT
    truncated_note: str = ""
    clip: Clip | None = None
    terms: tuple[Term, ...] = ()
    corrections: tuple[str, ...] = ()
    """What else multiplies a response: sentences."""
    visits: Visits | None = None
    ends: tuple[End, ...] = ()
    """Where outcomes decide how many responses are drawn, ``group_size`` at most: all ways in which that can end."""
    sums: Sums | None = None
    """In the place of what ``group_size`` to ``bounds`` would give."""
    statement: str = ""
    """What the trainer itself says that it follows: a sentence in the place of the nearest objective."""
    batch_prompts: int | None = None
    """Prompts that share the statistics of a batch; None: the file does not say."""
    updates_per_rollout: int | None = 1
    """Optimiser steps on one rollout; None: the file does not say."""
    max_response_tokens: int | None = None
    max_rounding: float = 0.0
    """Largest advantage that was seen in groups of equal fractional rewards, by rounding in float32."""
    preference: str = ""
    """Which prompts come more often than others, by what is believed of them: a sentence; empty where none do."""
    notes: tuple[str, ...] = ()
    """What surprises in this trainer: sentences."""
    unknown: tuple[str, ...] = ()
    """What the file does not tell: sentences."""
    undetermined: str = ""
    """Why no weight can be summed, as a sentence; empty where one can."""

    def __post_init__(self) -> None:
        """Check what every reader could get wrong.

        Raises:
            ValueError: a group without a response, or visits that do not fit together.
        """
        if self.group_size < 1:
            raise ValueError(f"a group needs at least 1 response; got {self.group_size}")
        if self.visits and len(self.visits.weights) != len(self.visits.bounds) + 1:
            raise ValueError(f"visits need one weight more than bounds; got {self.visits}")

    @property
    def every_end(self) -> tuple[End, ...]:
        """All ways in which a group can come out."""
        n = self.group_size
        return self.ends or tuple(End(n, right, math.comb(n, right)) for right in range(n + 1))

    @property
    def is_centred(self) -> bool:
        """Whether equal rewards have advantage 0, as long as nothing whitens them."""
        return self.baseline not in (Baseline.NONE, Baseline.BATCH_MEAN)

    @property
    def couples_prompts(self) -> bool:
        """Whether a prompt's weight depends on which others share its batch."""
        batch = (Spread.BATCH_REWARDS, Spread.BATCH_DIFFERENCES, Spread.REWARDED_SHARE)
        is_whitened = self.whitening is not None
        return is_whitened or self.divisor.spread in batch or self.baseline is Baseline.BATCH_MEAN
