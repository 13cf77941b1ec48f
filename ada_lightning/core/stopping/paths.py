"""Lattice paths that a stopping rule lets pass: the exact distribution of its ends, and unbiased estimates from them.

A prompt's responses walk over points (P, Q). Given its end, all orders that lead there are equally likely, so the
conditional expectation of an early event is a ratio of path counts (Girshick, Mosteller, Savage 1946, "Unbiased
estimates for certain binomial sampling problems"; Rao-Blackwell). Numbers of paths are kept scaled by ``2^-(P+Q)``:
they stay within floating point for ``n_max`` up to 1000.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.stopping.rule import PilotBranch, StoppingRule

Point = tuple[int, int]
"""(positives, negatives)."""
MAX_RESPONSES = 1000
_HALF = 0.5


def path_sums(rule: StoppingRule, sources: Mapping[Point, float]) -> NDArray[np.float64]:
    """Start ``weight`` walkers at each source and count the paths by which they reach every point.

    Paths pass only through points where the rule does not stop. A walker that starts on a stopping point ends there.

    If a rule remembers how its prompt began, only the paths are counted that end where they are. A walker that starts
    beyond that beginning came there by drawing first the class that it has more of; negatives, if it has as many of
    both.

    Args:
        rule: the stopping rule.
        sources: weight by point.

    Returns:
        ``sum over sources of weight * paths(source -> (P, Q)) * 2^-(P+Q)``. Shape ``(n_max + 1, n_max + 1)``, float64.

    Raises:
        ValueError: ``n_max`` is above 1000, where double precision ends.

    Example:
        >>> from ada_lightning.core.stopping import FixedRule
        >>> path_sums(FixedRule(2), {(0, 0): 1.0}).tolist()  # 1 path to (2, 0) and (0, 2), 2 paths to (1, 1)
        [[1.0, 0.5, 0.25], [0.5, 0.5, 0.0], [0.25, 0.0, 0.0]]
    """
    n_max = rule.n_max
    if n_max > MAX_RESPONSES:
        raise ValueError(f"n_max = {n_max} is more than path counting can handle; use at most {MAX_RESPONSES}")
    branches = rule.branches()
    if not branches:
        return _walk(rule, sources)
    sums = np.zeros((n_max + 1, n_max + 1))
    for branch in branches:
        within = {point: weight for point, weight in sources.items() if branch.holds(*point)}
        ended = _walk(branch, within) * _ends_of(branch)
        sums[: branch.n_max + 1, : branch.n_max + 1] += ended
    return sums


def _walk(rule: StoppingRule, sources: Mapping[Point, float]) -> NDArray[np.float64]:
    """Follow the walkers of a rule without memory; those of a branch start within its totals."""
    n_max = rule.n_max
    sums = np.zeros((n_max + 1, n_max + 1))
    for (positives, negatives), weight in sources.items():
        sums[positives, negatives] += weight * 2.0 ** -(positives + negatives)
    is_open = goes_on(rule)
    for total in range(n_max):  # one response more at a time, all points with as many at once
        positives_D = np.arange(total + 1)
        negatives_D = total - positives_D
        step_D = _HALF * sums[positives_D, negatives_D] * is_open[positives_D, negatives_D]
        sums[positives_D + 1, negatives_D] += step_D
        sums[positives_D, negatives_D + 1] += step_D
    return sums


@lru_cache(maxsize=4096)
def goes_on(rule: StoppingRule) -> NDArray[np.bool_]:
    """Where a rule does not stop, by (positives, negatives). Shape ``(n_max + 1, n_max + 1)``, not to be written to."""
    mask = np.zeros((rule.n_max + 1, rule.n_max + 1), dtype=bool)
    for positives in range(rule.n_max):
        for negatives in range(rule.n_max - positives):
            mask[positives, negatives] = not rule.stops(positives, negatives)
    mask.setflags(write=False)
    return mask


@lru_cache(maxsize=4096)
def _ends_of(branch: PilotBranch) -> NDArray[np.bool_]:
    """Where a branch ends. Shape ``(n_max + 1, n_max + 1)``."""
    mask = np.zeros((branch.n_max + 1, branch.n_max + 1), dtype=bool)
    for positives in range(branch.n_max + 1):
        negatives = branch.n_max - positives
        mask[positives, negatives] = branch.ends_at(positives, negatives)
    return mask


@lru_cache(maxsize=4096)
def reach(rule: StoppingRule) -> NDArray[np.float64]:
    """Scaled number of paths from (0, 0) to every point, 0 where the rule never gets.

    Of a rule that remembers how its prompt began: to every point where sampling can end.
    """
    sums = path_sums(rule, {(0, 0): 1.0})
    sums.setflags(write=False)
    return sums


def ends(rule: StoppingRule) -> Iterator[Point]:
    """Points where sampling can end."""
    for positives, negatives in np.argwhere(reach(rule) > 0):
        if rule.stops(int(positives), int(negatives)):
            yield int(positives), int(negatives)


def end_probability(rule: StoppingRule, end: Point, pass_rate: float) -> float:
    """Probability that sampling ends at ``end`` for a prompt of that pass rate.

    Example:
        >>> from ada_lightning.core.stopping import FixedRule
        >>> end_probability(FixedRule(2), (1, 1), 0.5)
        0.5
    """
    positives, negatives = end
    paths = float(reach(rule)[end])
    return paths * (2.0 * pass_rate) ** positives * (2.0 * (1.0 - pass_rate)) ** negatives


def unbiased_table(rule: StoppingRule, sources: Mapping[Point, float]) -> NDArray[np.float64]:
    """Unbiased estimate of ``sum of weight * p^i q^j`` over sources (i, j), by the point where sampling ended.

    Args:
        rule: the stopping rule.
        sources: weight by (i, j), each a point that the rule lets some order of i positives and j negatives reach.

    Returns:
        ``path_sums(sources) / paths from (0, 0)``, 0 where the rule never gets. Shape ``(n_max + 1, n_max + 1)``.

    Source:
        Girshick, Mosteller and Savage 1946.

    Example:
        >>> from ada_lightning.core.stopping import FixedRule
        >>> float(unbiased_table(FixedRule(4), {(1, 0): 1.0})[3, 1])  # the pass rate, from 3 positives of 4
        0.75
    """
    paths = reach(rule)
    sums = path_sums(rule, sources)
    return np.divide(sums, paths, out=np.zeros_like(sums), where=paths > 0)
