"""Groups of a log: what was drawn for a prompt, why it gave no gradient, and what earlier visits predict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from scipy.special import betaln

from ada_lightning.audit.records import Cause, Log, Row, Sampling

NO_ADVANTAGE = 1e-3
"""Of a group whose rewards are equal, smaller advantages are the rounding of its mean: of G equal float32 rewards it is
off by at most 1e-7 of them, which the usual division by (spread + 1e-4) makes 1e-3."""
PRIOR_RESPONSES = 2.0
"""Weight of the mean of all prompts in what is expected of one, in responses: a prompt's own counts lead soon."""


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
    is_own: bool
    """Whether the trainer's log says itself which responses are positive."""
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
        threshold: rewards above it are positive. None: as the log says of each response; else the middle between the
            lowest and the highest reward, 0 where there is only one. Where rewards take two values all of these agree.
        sampling: overrides what the log says, or seems to: it is uniform if all groups are equally large.
    """
    graded = sorted({row.reward for row in log.rows if row.reward is not None})
    is_own = threshold is None and any(row.is_positive is not None for row in log.rows)
    if is_own and log.threshold is not None:
        threshold = log.threshold
    if threshold is None:
        threshold = graded[0] / 2 + graded[-1] / 2 if len(graded) > 1 else 0.0  # a sum of huge ones has no value
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
        groups.append(_group(rows, number, unit, threshold, sampling, is_own=is_own))
    return Gathered(
        groups,
        unit,
        threshold,
        is_own,
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


def _group(
    rows: Sequence[Row], prompt: int, unit: Unit, threshold: float, sampling: Sampling, *, is_own: bool
) -> Group:
    graded = [row for row in rows if row.reward is not None and row.untrained is not Cause.ABORTED]
    classes_of: dict[bool, list[Row]] = {True: [], False: []}
    for row in graded:
        is_known = is_own and row.is_positive is not None
        classes_of[bool(row.is_positive) if is_known else (row.reward or 0.0) > threshold].append(row)
    positive, negative = classes_of[True], classes_of[False]
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


@dataclass(frozen=True, slots=True)
class Visit:
    """A group whose prompt had been there in an earlier step."""

    group: Group
    moved: float | None
    """Unbiased for the squared change of the pass rate since the visit before; None with a single response at either.
    Negative where the counts lie nearer to each other than chance would put them."""
    num_steps: int
    """Since the visit before."""
    gain: float
    """Nats per response by which the prompt's own counts foretell the group's better than the mean of all prompts."""
    usefulness: float
    """Expected p (1 - p) of the prompt by its counts before the visit."""


def visits(groups: Sequence[Group]) -> list[Visit]:
    """Go through the steps in order: what was known before each group, and what was then drawn.

    A belief about a prompt is Beta: its counts so far, and :data:`PRIOR_RESPONSES` at the mean of all that was drawn
    before the step. A constant is the same without counts of its own. Both foretell the order-free likelihood of the
    group's counts.
    """
    counts: dict[int, tuple[int, int]] = {}
    last: dict[int, Group] = {}
    total = [0.0, 0.0]
    found = []
    for _, step in groupby(sorted(groups, key=lambda group: group.step), key=lambda group: group.step):
        drawn = [group for group in step if group.positives + group.negatives]
        mean = (total[0] + 0.5) / (total[0] + total[1] + 1.0)
        returning = [group for group in drawn if group.prompt in last]
        found += [_visit(group, last[group.prompt], counts[group.prompt], mean) for group in returning]
        for group in drawn:
            before = counts.get(group.prompt, (0, 0))
            counts[group.prompt] = (before[0] + group.positives, before[1] + group.negatives)
            total = [total[0] + group.positives, total[1] + group.negatives]
            last[group.prompt] = group
    return found


def _visit(group: Group, before: Group, counts: tuple[int, int], mean: float) -> Visit:
    prior = PRIOR_RESPONSES * mean, PRIOR_RESPONSES * (1.0 - mean)
    belief = prior[0] + counts[0], prior[1] + counts[1]
    number = group.positives + group.negatives
    gain = _log_chance(belief, group) - _log_chance(prior, group)
    size = belief[0] + belief[1]
    return Visit(
        group,
        moved=_squared_change(before, group),
        num_steps=group.step - before.step,
        gain=gain / number,
        usefulness=belief[0] * belief[1] / (size * (size + 1.0)),
    )


def _log_chance(belief: tuple[float, float], group: Group) -> float:
    """Log-probability of the group's outcomes, in one order, under a Beta belief."""
    return float(betaln(belief[0] + group.positives, belief[1] + group.negatives) - betaln(*belief))


def _squared_change(before: Group, after: Group) -> float | None:
    """``(x - y)^2`` minus the unbiased variances of both shares."""
    change, noise = 0.0, 0.0
    for sign, group in ((-1.0, before), (1.0, after)):
        number = group.positives + group.negatives
        if number < 2:
            return None
        change += sign * group.positives / number
        noise += group.positives * group.negatives / (number**2 * (number - 1))
    return math.fsum((change**2, -noise))
