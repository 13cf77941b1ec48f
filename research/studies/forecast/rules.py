"""Forecasts of which prompts of a step will have a signal, as functions of the steps before.

A forecast scores the prompts of a step, and a quarter of them is taken, those of the largest scores. Prompts of equal
scores share the places that are left for them, so that no order of a file decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize
from scipy.special import expit, logit

from ada_lightning.methods.estimators.logit_prior import expected_spread, shown_spread

Floats = NDArray[np.float64]
GROUP = 4
"""Responses of each prompt of a step."""
COMMITTED = 0.1
"""The ``spread_scale`` of the forecast that ran: ``grpo_chosen_by_spread``."""
CHOSEN_RATIO = 4
"""Of so many prompts of a step one is taken: as many candidates a curriculum has."""
FADINGS = (0.97, 0.9, 0.8)
"""Weights of a step over that of the step after it, where a task's spread is followed."""
_FADING = 0.97
"""Weight of a step in a regression, over that of the step after it."""
_RIDGE, _FREE = 1.0, 1e-3
"""Penalties of a regression: on what differs between prompts, and on the intercept."""
_HELD = 4.0
"""Visits that a task's own level has to outweigh: what all tasks showed counts as so many of it."""


@dataclass(frozen=True)
class Step:
    """Prompts of a step, what was believed of them before it, and what they showed.

    Args:
        tasks: name of each prompt's task. P of them.
        right_P: right responses of each, of ``GROUP``. Shape ``(P,)``.
        beliefs: by ``spread_scale``, alpha and beta of the committed forecast before the step. Shapes ``(P,)``.
    """

    tasks: Sequence[str]
    right_P: NDArray[np.int64]
    beliefs: Mapping[float, tuple[Floats, Floats]]

    @property
    def has_signal(self) -> NDArray[np.bool_]:
        """Whether the responses of each prompt differ. Shape ``(P,)``."""
        return np.asarray((self.right_P > 0) & (self.right_P < GROUP))

    @property
    def spread(self) -> Floats:
        """The estimate of p (1 - p) without bias that each prompt's responses give. ``(P,)``."""
        return np.array([shown_spread(right, GROUP) for right in self.right_P.tolist()])


Past = Sequence[Step]
Score = Callable[[Past, Step], Floats]
"""Of every prompt of a step, by what the steps before have shown: the larger, the sooner it is taken. ``(P,)``."""


def taken(score_P: Floats, number: int) -> Floats:
    """Return how likely each prompt is among the best ``number``, where equal scores share their places.

    Example:
        >>> taken(np.array([0.3, 0.1, 0.2, 0.2]), 2)
        array([1. , 0. , 0.5, 0.5])
    """
    score_P = np.round(score_P, 12)
    last = np.sort(score_P)[-number]
    above_P, tied_P = score_P > last, score_P == last
    return np.asarray(above_P + tied_P * (number - above_P.sum()) / tied_P.sum())


def num_chosen(step: Step) -> int:
    """Return how many prompts of a step are taken."""
    return len(step.tasks) // CHOSEN_RATIO


def spread_of(scale: float) -> Score:
    """Score by E[p (1 - p)] of the committed forecast with this ``spread_scale``."""
    return lambda past, step: expected_spread(*step.beliefs[scale])


def rate(past: Past, step: Step) -> Floats:
    """Score by how near the committed forecast's mean pass rate is to one half, whatever its width."""
    alpha_P, beta_P = step.beliefs[COMMITTED]
    mean_P = alpha_P / (alpha_P + beta_P)
    return mean_P * (1 - mean_P)


def signal(past: Past, step: Step) -> Floats:
    """Score by the committed forecast's chance that the responses of a group differ."""
    return signal_of(*step.beliefs[COMMITTED])


def signal_of(alpha_P: Floats, beta_P: Floats) -> Floats:
    """Return the chance that the responses of a group differ, if pass rates have these Beta distributions.

    Example:
        >>> signal_of(np.array([1.0]), np.array([1.0])).round(3)
        array([0.6])
    """
    drawn = np.arange(GROUP)[:, None]
    total = alpha_P + beta_P + drawn
    return np.asarray(1 - ((alpha_P + drawn) / total).prod(0) - ((beta_P + drawn) / total).prod(0))


def by_task_rate(past: Past, step: Step) -> Floats:
    """Score by p (1 - p) of the pass rate that a logistic regression on the task's name expects."""
    rate_P = _regression(past, step, lambda of: of.right_P, GROUP)
    return rate_P * (1 - rate_P)


def by_task_signal(past: Past, step: Step) -> Floats:
    """Score by the chance of a signal that a logistic regression on the task's name expects."""
    return _regression(past, step, lambda of: of.has_signal, 1)


def by_both(past: Past, step: Step) -> Floats:
    """Score by the chance of a signal that a regression on the task's name and the committed forecast expects."""
    return _regression(past, step, lambda of: of.has_signal, 1, lambda of: logit(signal([], of)))


def _regression(
    past: Past,
    step: Step,
    found: Callable[[Step], NDArray[np.generic]],
    number: int,
    more: Callable[[Step], Floats] | None = None,
) -> Floats:
    """Fit to the steps before, later ones counting more, and return the rates expected in this step."""
    names = sorted({task for each in (*past, step) for task in each.tasks})

    def rows(of: Step) -> Floats:
        columns = [[float(task == name) for task in of.tasks] for name in names]
        return np.column_stack([np.ones(len(of.tasks)), *columns, *([more(of)] if more else [])])

    weight_N = np.concatenate([np.full(len(of.tasks), _FADING**age) for age, of in enumerate(past[::-1])][::-1])
    right_N = np.concatenate([found(of) for of in past]).astype(float)
    coefficients_F = fitted(np.concatenate([rows(of) for of in past]), right_N, number, weight_N)
    return np.asarray(expit(rows(step) @ coefficients_F))


def fitted(rows_NF: Floats, right_N: Floats, number: int, weight_N: Floats) -> Floats:
    """Return the coefficients of a logistic regression of binomial counts, the first column being the intercept's.

    Args:
        rows_NF: N observations of F columns.
        right_N: right ones of ``number``.
        number: of trials of each observation.
        weight_N: how much each counts.
    """
    penalty_F = np.full(rows_NF.shape[1], _RIDGE)
    penalty_F[0] = _FREE

    def loss(coefficients_F: Floats) -> tuple[float, Floats]:
        at_N = rows_NF @ coefficients_F
        value = weight_N @ (number * np.logaddexp(0.0, at_N) - right_N * at_N)
        slope_F = rows_NF.T @ (weight_N * (number * expit(at_N) - right_N))
        return float(value + penalty_F @ coefficients_F**2 / 2), slope_F + penalty_F * coefficients_F

    return np.asarray(optimize.minimize(loss, np.zeros(len(penalty_F)), jac=True, method="L-BFGS-B").x)


def task_spread(fading: float) -> Score:
    """Score by the p (1 - p) that the task's prompts showed lately; a step counts ``fading`` times the one after it."""

    def score(past: Past, step: Step) -> Floats:
        level, by_task = _levels(past, fading, lambda of: of.spread)
        return np.array([by_task.get(task, level) for task in step.tasks])

    return score


def corrected(fading: float) -> Score:
    """Score by the committed E[p (1 - p)] times how much more, or less, the task showed lately than it expected."""

    def score(past: Past, step: Step) -> Floats:
        expected = spread_of(COMMITTED)
        shown, shown_by_task = _levels(past, fading, lambda of: of.spread)
        said, said_by_task = _levels(past, fading, lambda of: expected([], of))
        factors = {task: shown_by_task[task] / said_by_task[task] for task in shown_by_task}
        return expected(past, step) * np.array([factors.get(task, shown / said) for task in step.tasks])

    return score


def _levels(past: Past, fading: float, value: Callable[[Step], Floats]) -> tuple[float, dict[str, float]]:
    """Return a fading mean of a value, of all prompts and by task, a task's own drawn towards the first."""
    sums: dict[str, tuple[float, float]] = {}
    for of in past:
        sums = {task: (fading * total, fading * weight) for task, (total, weight) in sums.items()}
        for task, each in zip(of.tasks, value(of).tolist(), strict=True):
            total, weight = sums.get(task, (0.0, 0.0))
            sums[task] = total + each, weight + 1.0
    level = sum(total for total, _ in sums.values()) / sum(weight for _, weight in sums.values())
    return level, {task: (total + _HELD * level) / (weight + _HELD) for task, (total, weight) in sums.items()}


BASE = "committed"
FORECASTS: Mapping[str, Score] = {
    BASE: spread_of(COMMITTED),
    "committed, no spread of its own": spread_of(0.0),
    "committed, by mean pass rate": rate,
    "committed, by chance of a signal": signal,
    "task's name, pass rate": by_task_rate,
    "task's name, signal": by_task_signal,
    "task's name and committed, signal": by_both,
    **{f"task's spread, fading {fading:g}": task_spread(fading) for fading in FADINGS},
    **{f"committed times task's spread, fading {fading:g}": corrected(fading) for fading in FADINGS},
}
"""By name; none needs a response of the step's own prompts."""
