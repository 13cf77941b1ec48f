"""Rows of a log, gathered: what was drawn for a prompt in a step, and why its tokens gave no gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from ada_lightning.audit.records import Cause, Log, Row, Sampling

NO_ADVANTAGE = 1e-3
"""Of a group whose rewards are equal, smaller advantages are the rounding of its mean: of G equal float32 rewards it is
off by at most 1e-7 of them, which the usual division by (spread + 1e-4) makes 1e-3."""


class Unit(Enum):
    """What lengths are measured in: the best that every response of the log has."""

    TOKENS = "tokens"
    CHARACTERS = "characters"
    RESPONSES = "responses"


@dataclass(frozen=True, slots=True)
class Group:
    """The responses to one prompt in one step."""

    step: int
    prompt: int
    """Number of its prompt, from 0; a group of an unknown prompt has one of its own."""
    positives: int
    """Among the graded responses."""
    negatives: int
    positive_length: float
    """Sum over positives, in the log's unit."""
    negative_length: float
    ungraded_length: float
    """Of responses without a reward."""
    first: tuple[int, int]
    """Positives and negatives that no stopping rule chose: all of them where sampling is uniform, else those of the
    first block."""
    first_length: tuple[float, float]
    """Summed lengths of these."""
    differs: bool
    """Whether rewards differ."""
    num_responses: int
    lost: dict[Cause, float]
    """Length without gradient by cause."""
    num_truncated: int | None
    """None where the log does not say it of every response."""

    @property
    def length(self) -> float:
        """Length of every response, those without a reward included."""
        return self.positive_length + self.negative_length + self.ungraded_length

    @property
    def comparisons(self) -> float:
        """Effective comparisons of a right response with a wrong one, ``1 / (1 / right + 1 / wrong)``."""
        return self.positives * self.negatives / max(self.positives + self.negatives, 1)


@dataclass(frozen=True)
class Gathered:
    """All groups of a log, in the order of steps."""

    groups: list[Group]
    unit: Unit
    threshold: float
    """Rewards above it are positive."""
    rewards: int
    """How many different rewards there are."""
    sampling: Sampling
    num_prompts: int
    knows_prompts: bool
    """Whether every response names its prompt."""
    tells_gradient: bool
    """Whether groups have several responses, or any an advantage: else rewards have nothing to be compared with."""


def gather(log: Log, *, threshold: float | None = None, sampling: Sampling | None = None) -> Gathered:
    """Gather the rows of a log.

    Args:
        log: of a reader.
        threshold: rewards above it are positive. None: the middle between the lowest and the highest reward, 0 where
            there is only one; the two coincide with every trainer's notion where rewards take two values.
        sampling: overrides what the log says, or seems to: it is uniform if all groups are equally large.
    """
    graded = sorted({row.reward for row in log.rows if row.reward is not None})
    if threshold is None:
        threshold = (graded[0] + graded[-1]) / 2 if len(graded) > 1 else 0.0
    by_group: dict[tuple[int, str], list[Row]] = {}
    for row in log.rows:
        by_group.setdefault((row.step, row.group_key), []).append(row)
    sizes = {len(rows) for rows in by_group.values()}
    sampling = sampling or log.sampling or (Sampling.UNIFORM if len(sizes) == 1 else Sampling.ADAPTIVE)
    tells_gradient = max(sizes, default=0) > 1 or any(row.advantage is not None for row in log.rows)
    unit = _unit(log.rows)
    prompts: dict[object, int] = {}
    groups = []
    for key, rows in sorted(by_group.items(), key=lambda item: item[0][0]):
        prompt_key: object = key if rows[0].prompt_key is None else rows[0].prompt_key
        number = prompts.setdefault(prompt_key, len(prompts))
        groups.append(_group(rows, number, unit, threshold, sampling))
    return Gathered(
        groups,
        unit,
        threshold,
        len(graded),
        sampling,
        len(prompts),
        all(row.prompt_key is not None for row in log.rows),
        tells_gradient,
    )


def length_of(row: Row, unit: Unit) -> float:
    """Return the length of a response in a unit that it has."""
    if unit is Unit.TOKENS:
        return float(row.num_tokens or 0)
    return float(row.num_characters or 0) if unit is Unit.CHARACTERS else 1.0


def _unit(rows: Sequence[Row]) -> Unit:
    if all(row.num_tokens is not None for row in rows):
        return Unit.TOKENS
    return Unit.CHARACTERS if all(row.num_characters is not None for row in rows) else Unit.RESPONSES


def _group(rows: Sequence[Row], prompt: int, unit: Unit, threshold: float, sampling: Sampling) -> Group:
    graded = [row for row in rows if row.reward is not None and row.untrained is not Cause.ABORTED]
    positive = [row for row in graded if _is_positive(row, threshold)]
    negative = [row for row in graded if not _is_positive(row, threshold)]
    differs = len({row.reward for row in graded}) > 1
    lost: dict[Cause, float] = {}
    for row in rows:
        if cause := _cause(row, graded, bool(positive), differs):
            lost[cause] = lost.get(cause, 0.0) + length_of(row, unit)
    is_first = sampling is Sampling.UNIFORM
    classes = [[row for row in rows_of if is_first or row.block == 0] for rows_of in (positive, negative)]
    truncated = [row.is_truncated for row in rows]
    return Group(
        step=rows[0].step,
        prompt=prompt,
        positives=len(positive),
        negatives=len(negative),
        positive_length=_total(positive, unit),
        negative_length=_total(negative, unit),
        ungraded_length=_total(rows, unit) - _total(graded, unit),
        first=(len(classes[0]), len(classes[1])),
        first_length=(_total(classes[0], unit), _total(classes[1], unit)),
        differs=differs,
        num_responses=len(rows),
        lost=lost,
        num_truncated=None if None in truncated else sum(map(bool, truncated)),
    )


def _total(rows: Iterable[Row], unit: Unit) -> float:
    return sum(length_of(row, unit) for row in rows)


def _is_positive(row: Row, threshold: float) -> bool:
    return (row.reward or 0.0) > threshold if row.is_positive is None else row.is_positive


def _cause(row: Row, graded: Sequence[Row], is_right: bool, differs: bool) -> Cause | None:
    """Why this response has no gradient; None where it has one."""
    if row.untrained is Cause.ABORTED:
        return Cause.ABORTED
    if row.reward is None:
        return Cause.NOT_GRADED
    # A baseline from outside of the group leaves an advantage where all rewards are equal.
    if not differs and all(abs(other.advantage or 0.0) <= NO_ADVANTAGE for other in graded):
        return Cause.ALL_RIGHT if is_right else Cause.ALL_WRONG
    if row.untrained is not None:
        return row.untrained
    return Cause.ZERO_ADVANTAGE if row.advantage == 0.0 else None
