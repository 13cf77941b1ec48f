"""What earlier visits of a prompt say of the next: how far its pass rate moves, and what its counts foretell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from scipy.special import betaln

from ada_lightning.audit.groups import Group

PRIOR_RESPONSES = 2.0
"""Weight of the mean of all prompts in what is expected of one, in responses: a prompt's own counts lead soon."""


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
