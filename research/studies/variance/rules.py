"""The rules without a memory: how a prompt is sampled, what is kept, how that is weighted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from ada_lightning.core.protocols import Advantage, Sampler, Selection
from ada_lightning.core.stopping.paths import ends as ends_of
from ada_lightning.core.stopping.rule import FixedRule
from ada_lightning.methods.advantages import (
    ExactAdvantage,
    GroupNormalizedAdvantage,
    LeaveOneOutAdvantage,
    PoolMeanAdvantage,
)
from ada_lightning.methods.objectives import LinearObjective, LogObjective
from ada_lightning.methods.published.speed import SpeedSampler
from ada_lightning.methods.sampling import BalanceSampler, PositiveSampler, UniformSampler
from ada_lightning.methods.selection import AllSelection, BalancedSelection, RarerClassSelection
from research.benchmarks.expected_update import Ends, ExactUpdates, Method
from research.studies.variance.update_moments import Array, ends_with

EXACT_P, EXACT_LOG_P = ExactAdvantage(objective=LinearObjective()), ExactAdvantage(objective=LogObjective())


def of_method(sampler: Sampler, selection: Selection, advantage: Advantage) -> Ends:
    """Return the ends of what the project itself samples, keeps and weighs."""
    return ExactUpdates(Method("", sampler, selection, advantage)).ends


def rounded_leave_one_out(size: int) -> Ends:
    """Return the ends where the baseline of a response is the mean of the others, rounded to 0 or 1.

    A baseline of 0 gives negatives no advantage and one of 1 gives positives none: the class that is rarer among the
    others trains alone. Unbiased for p. A mean of 1/2 stays what it is.
    """
    positives_E = np.array(list(ends_of(FixedRule(size))), dtype=np.float64)[:, 0]
    of_positive_E = 1.0 - _rounded((positives_E - 1) / (size - 1))
    return ends_with(FixedRule(size), of_positive_E / size, -_rounded(positives_E / (size - 1)) / size)


def _rounded(means_E: Array) -> Array:
    return np.where(means_E == 0.5, 0.5, (means_E > 0.5).astype(np.float64))


def _uniform(size: int) -> Sampler:
    return UniformSampler(group_size=size)


_ALL, _HALVES = AllSelection(), BalancedSelection(group_size=4)
_RARER = RarerClassSelection(max_per_class=32)
_BALANCE = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
_POSITIVE = PositiveSampler(k_pos=1, samples_per_round=4, n_max=32, group_size=4)
_SCREEN = SpeedSampler(num_screen=4, num_continue=20, group_size=24)

RULES: Mapping[str, Callable[[], Ends]] = {
    **{f"GRPO, n = {n}": partial(of_method, _uniform(n), _ALL, GroupNormalizedAdvantage()) for n in (4, 8, 16)},
    "n = 8, exact p (RLOO)": partial(of_method, _uniform(8), _ALL, EXACT_P),
    "n = 8, exact log p (MaxRL)": partial(of_method, _uniform(8), _ALL, EXACT_LOG_P),
    "n = 8, 2+2 kept, exact p": partial(of_method, _uniform(8), _HALVES, EXACT_P),
    "n = 8, rarer class + as many, exact p": partial(of_method, _uniform(8), _RARER, EXACT_P),
    "n = 8, rarer class alone, rounded baseline": partial(rounded_leave_one_out, 8),
    "Seq-balance, 2+2 kept, official": partial(of_method, _BALANCE, _HALVES, PoolMeanAdvantage()),
    "Seq-balance, 2+2 kept, official x 1/p": partial(of_method, _BALANCE, _HALVES, PoolMeanAdvantage(weight_power=1.0)),
    "Seq-balance, 2+2 kept, exact log p": partial(of_method, _BALANCE, _HALVES, EXACT_LOG_P),
    "Seq-balance, all kept, official": partial(of_method, _BALANCE, _ALL, PoolMeanAdvantage()),
    "Seq-balance, all kept, exact log p": partial(of_method, _BALANCE, _ALL, EXACT_LOG_P),
    "Seq-pos, 2+2 kept, official": partial(of_method, _POSITIVE, _HALVES, PoolMeanAdvantage()),
    "screen 4, then 20, RLOO (SPEED)": partial(of_method, _SCREEN, _ALL, LeaveOneOutAdvantage()),
}
"""By name. Seq-balance and Seq-pos have the project's defaults: blocks of 4, at most 32."""
