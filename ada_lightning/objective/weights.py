"""Exact sums over the outcomes of a group: what a prompt's gradient weighs by its pass rate, and what it costs.

A right response's score is ``1/p`` and a wrong one's ``-1/(1-p)`` in units of ``grad p``. So the expected update of a
prompt is a sum over the number of right ones: its probability times advantages times scores. 1 is the plain policy
gradient of p, one response's share. Rewards are 0 or 1, responses equally long, the first update of a rollout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Objective
from ada_lightning.methods.objectives import LogitObjective, LogObjective, PassAtKObjective
from ada_lightning.objective.batch import advantages, group_of, large_batch
from ada_lightning.objective.update import Filter, Keep, Update, Visits

PASS_RATES = (0.05, 0.2, 0.5, 0.8, 0.95)
"""Of the tables."""
FINE = tuple(round(0.05 + 0.025 * step, 3) for step in range(37))
"""Of the picture, and of the comparison with named objectives: 0.05 to 0.95."""
EVEN = 0.5
FLAT = 1.0 + 1e-6
"""Weights within this ratio are those of the mean pass rate."""
_MAX_OTHERS = 2
"""Of a batch's other prompts whose outcomes are all enumerated."""


@dataclass(frozen=True)
class Named:
    """An objective that people know, and how far an update is from it."""

    name: str
    formula: str
    off: float
    """Largest ratio by which the weights of two prompts differ from it, over pass rates of .05 to .95; 1: equal."""


def weight(update: Update, pass_rate: float, *, others: Sequence[float] | None = None) -> float:
    """Sum the expected update of a prompt, in units of ``grad p`` for one response.

    Args:
        update: what the trainer does.
        pass_rate: p of the prompt, above 0 and below 1.
        others: pass rates of the prompts that share its batch, at most two, all of whose outcomes are enumerated. None:
            so many, of pass rate one half, that no single group changes a statistic of the batch.

    Raises:
        ValueError: no weight can be summed for this update, or a pass rate or the number of others is out of range.
    """
    if update.undetermined:
        raise ValueError(update.undetermined)
    if not 0.0 < pass_rate < 1.0:
        raise ValueError(f"a pass rate lies above 0 and below 1; got {pass_rate}")
    if others is not None and len(others) > _MAX_OTHERS:
        raise ValueError(f"all outcomes of at most {_MAX_OTHERS} other prompts are enumerated; got {len(others)}")
    if update.sums:
        return update.sums.at(update.sums.weights, pass_rate)
    visits = _visits(update.visits, update.group_size, pass_rate) if update.visits else 1.0
    sums = _by_end(update, None if others is None else tuple(others))
    return visits * _expected(update, sums, pass_rate)


def relative(
    update: Update, pass_rates: Sequence[float] = PASS_RATES, *, others: Sequence[float] | None = None
) -> list[float]:
    """Return weights over that of p = 1/2; all NaN where a prompt of one half has none."""
    even = weight(update, EVEN, others=others)
    return [weight(update, rate, others=others) / even if even else math.nan for rate in pass_rates]


def share_kept(update: Update, pass_rate: float) -> float:
    """Return the share of drawn responses that a filter keeps; 1 without one."""
    if update.filter is None:
        return 1.0
    if update.sums:
        return share_signal(update, pass_rate)
    kept = math.fsum(end.chance(pass_rate) * _num_kept(update.filter, end.right, end.drawn) for end in update.every_end)
    return kept / _mean_drawn(update, pass_rate)


def share_signal(update: Update, pass_rate: float) -> float:
    """Return the share of groups with a right and a wrong response."""
    if update.sums:
        return update.sums.at(update.sums.signal, pass_rate)
    return math.fsum(end.chance(pass_rate) for end in update.every_end if 0 < end.right < end.drawn)


def responses(update: Update, pass_rate: float) -> float:
    """Return the responses drawn for each group that trains, if a filter draws others in place of what it drops."""
    refills = update.filter is not None and update.filter.refills
    drawn = update.sums.at(update.sums.responses, pass_rate) if update.sums else _mean_drawn(update, pass_rate)
    return drawn / (share_kept(update, pass_rate) if refills else 1.0)


def nearest(update: Update) -> list[Named]:
    """Compare with objectives that people know, the nearest first; empty where no weight can be summed."""
    if update.undetermined:
        return []
    found = relative(update, FINE)
    named = [
        Named(name, formula, _off(found, [slope(rate) for rate in FINE]))
        for name, (formula, slope) in objectives(update.group_size).items()
    ]
    return sorted(named, key=lambda objective: objective.off)  # stable: of equals, the simpler one


def objectives(group_size: int) -> Mapping[str, tuple[str, Callable[[float], float]]]:
    """Return formula and derivative of each objective that an update is compared with, by name."""
    seen = group_size - 1
    found: dict[str, tuple[str, Callable[[float], float]]] = {
        "the mean pass rate": ("f(p) = p", lambda rate: 1.0),
    }
    for k in sorted({2, 4, 8, 16, group_size}):
        if k > 1:
            objective = PassAtKObjective(k)
            found[f"pass@{k}"] = (f"f(p) = {objective.formula()}", _slope(objective))
    if seen > 1:
        found[f"log p, as far as {group_size} responses can see it"] = (
            f"f'(p) = (1 - (1-p)^{seen}) / p",
            lambda rate: (1.0 - (1.0 - rate) ** seen) / rate,
        )
    return found | {
        "log p": ("f(p) = log p", _slope(LogObjective())),
        "the arcsine": ("f(p) = 2 arcsin(sqrt p)", lambda rate: 1.0 / math.sqrt(rate * (1.0 - rate))),
        "the log-odds": ("f(p) = log(p / (1-p))", lambda rate: 1.0 / (rate * (1.0 - rate))),
        "the log-odds minus p": ("f(p) = logit(p)/2 - p", _slope(LogitObjective())),
        "prompts near one half": ("f'(p) = p (1-p)", lambda rate: rate * (1.0 - rate)),
        "prompts near one half, weakly": ("f'(p) = sqrt(p (1-p))", lambda rate: math.sqrt(rate * (1.0 - rate))),
        "easy prompts": ("f(p) = p^2 / 2", lambda rate: rate),
    }


def is_mean(update: Update) -> bool:
    """Whether every prompt weighs the same, in a large batch."""
    found = [] if update.undetermined else relative(update, FINE)
    return bool(found) and min(found) > 0 and max(found) / min(found) < FLAT


def _slope(objective: Objective) -> Callable[[float], float]:
    return lambda rate: float(objective.weight(np.array(rate, dtype=np.float64)))


def _off(found: Sequence[float], wanted: Sequence[float]) -> float:
    """Ratio of the largest to the smallest quotient; infinite where a weight is not above 0."""
    quotients = [one / other if other else math.inf for one, other in zip(found, wanted, strict=True)]
    if not all(value > 0 and math.isfinite(value) for value in quotients):
        return math.inf
    return max(quotients) / min(quotients)


def _chance(size: int, right: int, pass_rate: float) -> float:
    return math.comb(size, right) * pass_rate**right * (1.0 - pass_rate) ** (size - right)


def _mean_drawn(update: Update, pass_rate: float) -> float:
    """Responses that a prompt draws on average."""
    if not update.ends:
        return update.group_size
    return math.fsum(end.chance(pass_rate) * end.drawn for end in update.ends)


def _expected(update: Update, sums: NDArray[np.float64], pass_rate: float) -> float:
    """Sum over all ends, for one response of a prompt of one half; ``sums``: as ``_by_end``. Shape (ends, 2)."""
    total = math.fsum(
        end.chance(pass_rate) * float(right / pass_rate - wrong / (1.0 - pass_rate))
        for end, (right, wrong) in zip(update.every_end, sums, strict=True)
    )
    return total / _mean_drawn(update, EVEN)


@lru_cache(maxsize=256)
def _by_end(update: Update, others: tuple[float, ...] | None) -> NDArray[np.float64]:
    """Advantages of right and of wrong responses, added up, by the end of sampling. Shape (ends, 2)."""
    ends = update.every_end
    groups = [group_of(end.right, end.drawn) for end in ends]
    if others is None:
        batch = large_batch(update)
        rows = [advantages(update, [group], batch)[0] for group in groups]
        return np.array([[row[: end.right].sum(), row[end.right :].sum()] for end, row in zip(ends, rows, strict=True)])
    found = np.zeros((len(ends), 2))
    for index, end in enumerate(ends):
        for indices in np.ndindex(*(len(ends),) * len(others)):
            chance = math.prod(ends[other].chance(rate) for other, rate in zip(indices, others, strict=True))
            row = advantages(update, [groups[index], *(groups[other] for other in indices)])[0]
            found[index] += chance * np.array([row[: end.right].sum(), row[end.right :].sum()])
    return found


def _num_kept(chosen: Filter, right: int, size: int) -> int:
    """Rows of a group that a filter keeps."""
    if chosen.keep is Keep.MEAN_INSIDE:
        return size if chosen.low < right / size < chosen.high else 0
    if chosen.keep is Keep.ROW_SPREAD:  # a row stays if the others have a right and a wrong one
        wrong = size - right
        return right * (right > 1 and wrong > 0) + wrong * (wrong > 1 and right > 0)
    return size if 0 < right < size or size == 1 else 0


def _visits(visits: Visits, size: int, pass_rate: float) -> float:
    """Long-run share of visits: a prompt waits 1 / weight of its last group's pool."""
    waits = math.fsum(
        _chance(size, right, pass_rate) / visits.weights[_pool(visits.bounds, right / size)]
        for right in range(size + 1)
    )
    return 1.0 / waits


def _pool(bounds: Sequence[float], mean: float) -> int:
    return next((index for index, bound in enumerate(bounds) if mean <= bound), len(bounds))
