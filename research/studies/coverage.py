"""Do intervals over pairs of runs hold the truth as often as they say? ``python -m research.studies.coverage``.

Draws studies whose truth is known, makes intervals by several methods, and counts how many hold it. A study is like
those of the pages: the mean curve of GRPO, and the same run through once or some more times as fast, plus what
committed pairs of runs deviate from the means of their methods. So noise has the size of theirs, its course over a run,
what two runs of one seed share, and its skewness.

Some forty pairs, many beside the same runs of GRPO, are few for a population: of forty normal draws, drawn with
replacement, the t interval of five holds 94.5 % and not 95, less than 93 of one set in twenty. So a quarter of the
variance is that of normal noise with the same covariance (the smoothed bootstrap, Silverman and Young 1987); what
holds without it is counted for the method that is used.

The figures are those of the pages: the factor along the whole curve, by every method, and the difference of ends, by
the one that is used: for that it is the paired t interval. Writes ``docs/studies/coverage.json``; a few minutes with
``OMP_NUM_THREADS=1``, since its products are small.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from research.benchmarks.report import DOCS, header, markdown
from research.studies.contest import Contest
from research.studies.curves import FACTORS, Floats, half_width
from research.studies.field.fresh import CONTEST as FRESH
from research.studies.field.newer import CONTEST as NEWER
from research.studies.real_model.compare import CONTESTS as REAL_MODEL
from research.studies.real_model.setting import GPU, GPU_ARMS, LONG

FILE = DOCS / "studies" / "coverage.json"
PAIRS = (3, 5, 10)
LEVELS = (0.95, 0.975)
NUM_STUDIES = 2000
USED = "leaving half out, t"
"""Of :data:`METHODS`, the one that all studies have."""
NUM_POINTS = 8
"""Evaluations of a run, at equal steps after that of the start."""
SMOOTHED, PLAIN = 0.5, 0.0
"""Standard deviation of the normal part of the noise."""
_NUM_RESAMPLES, _NUM_STUDENTISED = 999, 299
_GRID = 400

Figure = Callable[[Floats], Floats]
"""A figure of weighted means of pairs: weights that sum to 1, shape ``(R, pairs)``, to values, shape ``(R,)``."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class Population:
    """Where studies are drawn from."""

    name: str
    start: float
    rise: float
    scale: float
    """GRPO's mean rate is ``start + rise (1 - exp(-x / scale))`` after the share x of its tokens."""
    deviations: Floats
    """Of committed pairs from the means of their methods. Shape ``(P, 2, 1 + NUM_POINTS)``."""
    speed: float
    """How many times faster the other method is, where it is."""

    def curves(self, speed: float) -> Floats:
        """Return the curves without noise. Shape ``(2, 1 + NUM_POINTS)``."""
        shares = np.linspace(0.0, 1.0, 1 + NUM_POINTS)
        return np.array([saturating(factor * shares, self.start, self.rise, self.scale) for factor in (1.0, speed)])

    def draw(self, num_pairs: int, speed: float, smoothing: float, generator: np.random.Generator) -> Floats:
        """Return a study. Shape ``(num_pairs, 2, 1 + NUM_POINTS)``."""
        number = len(self.deviations)
        drawn = self.deviations[generator.integers(number, size=num_pairs)]
        mixed = np.tensordot(generator.normal(size=(num_pairs, number)), self.deviations, 1) / math.sqrt(number)
        return self.curves(speed) + math.sqrt(1 - smoothing**2) * drawn + smoothing * mixed


def saturating(share: Floats, start: float, rise: float, scale: float) -> Floats:
    """Return a curve that flattens."""
    return start + rise * (1.0 - np.exp(-share / scale))


def population(name: str, contests: Sequence[Contest], base: str, speed: float) -> Population:
    """Return the noise of committed runs beside ``base``, and its mean curve."""
    deviations, means = [], []
    for contest in contests:
        found = {
            method: {seed: _at_points(curve) for seed, curve in of.items()} for method, of in contest.known().items()
        }
        means.append(np.mean(list(found[base].values()), axis=0))
        for method, runs in found.items():
            if method != base and len(seeds := sorted(set(runs) & set(found[base]))) >= 5:
                pairs = np.array([[found[base][seed], runs[seed]] for seed in seeds])
                deviations.append((pairs - pairs.mean(0)) * math.sqrt(len(seeds) / (len(seeds) - 1)))
    mean, shares = np.mean(means, axis=0), np.linspace(0.0, 1.0, 1 + NUM_POINTS)
    (start, rise, scale), _ = optimize.curve_fit(saturating, shares, mean, p0=(mean[0], np.ptp(mean), 0.5))
    return Population(name, float(start), float(rise), float(scale), np.concatenate(deviations), speed)


def _at_points(curve: Sequence[Mapping[str, float]]) -> Floats:
    tokens = np.array([row["generated_tokens"] for row in curve])
    return np.interp(np.linspace(0.0, tokens[-1], 1 + NUM_POINTS), tokens, [row["held_out"] for row in curve])


def populations() -> list[Population]:
    """Return the two that the pages have studies of."""
    real = [REAL_MODEL[stage.name] for stage in (LONG, GPU, GPU_ARMS)]
    return [
        population("the default model", real, "grpo_n4", 1.6),
        population("the tiny model", (FRESH, NEWER), "grpo_n4_4_updates", 2.0),
    ]


@cache
def _distances() -> tuple[Floats, Floats]:
    """Return the logarithms of the factors that are tried, and the squared distance of two curves at each.

    Returns:
        Shapes ``(F,)`` and ``(F, 2 K, 2 K)``: forms of the rates of both curves at their K evaluations, one after the
        other.
    """
    shares, grid = np.linspace(0.0, 1.0, 1 + NUM_POINTS), np.linspace(0.0, 1.0, _GRID)

    def lines(factor: float) -> Floats:
        return np.array([np.interp(factor * grid, shares, unit) for unit in np.eye(len(shares))])

    apart = np.array([np.concatenate([lines(factor), -lines(1.0)]) for factor in FACTORS])
    return np.log(FACTORS), apart @ apart.transpose(0, 2, 1) / _GRID


def log_factor(study: Floats) -> Figure:
    """Return the factor along the whole curve, of weighted means of pairs, as a logarithm.

    It is :func:`research.studies.curves.best_factor` for runs with evaluations at the same tokens. The squared distance
    of two mean curves is then a quadratic form of the weights, for every factor that is tried one, and all weights are
    one product of matrices. The least value lies on the parabola through the best factor and its neighbours.
    """
    logs, distances = _distances()
    rates = study.reshape(len(study), -1)
    forms = rates @ distances @ rates.T
    first, second = np.triu_indices(len(study))
    forms_CF = (forms[:, first, second] * np.where(first == second, 1.0, 2.0)).T

    def figure(weights: Floats) -> Floats:
        errors = (weights[:, first] * weights[:, second]) @ forms_CF
        best, rows = errors.argmin(1), np.arange(len(weights))
        inner = np.clip(best, 1, len(logs) - 2)
        below, at, above = (errors[rows, inner + step] for step in (-1, 0, 1))
        bend = below - 2 * at + above
        shift = np.where((inner == best) & (bend > 0), (below - above) / np.where(bend > 0, 2 * bend, 1.0), 0.0)
        return np.round(logs[best] + shift * (logs[1] - logs[0]), 9)  # the same pairs in another order are a tie

    return figure


def end_difference(study: Floats) -> Figure:
    """Return how much higher the other method ends, mean of three evaluations, of weighted means of pairs."""
    gains = (study[:, 1] - study[:, 0])[:, -3:].mean(1)
    return lambda weights: np.asarray(weights @ gains)


FIGURES: Mapping[str, Callable[[Floats], Figure]] = {"factor": log_factor, "end": end_difference}


def leaving_half_out(figure: Figure, number: int, _: np.random.Generator) -> list[Interval]:
    """Intervals of :func:`research.studies.curves.half_width`."""
    halves = list(combinations(range(number), number - number // 2))
    counts = np.array([np.bincount(half, minlength=number) for half in halves])
    known = dict(zip(halves, figure(counts / counts.sum(1, keepdims=True)), strict=True))
    value = _value(figure, number)
    widths = [half_width(lambda of: float(known[tuple(of)]), range(number), level=level) for level in LEVELS]
    return [(value - width, value + width) for width in widths]


def leaving_one_out(figure: Figure, number: int, _: np.random.Generator) -> list[Interval]:
    """The jackknife with the quantiles of t."""
    return _around(_value(figure, number), float(_errors(figure, np.ones((1, number)))[0]), number)


def pair_by_pair(figure: Figure, number: int, _: np.random.Generator) -> list[Interval]:
    """The t interval of the figures of single pairs, around their mean."""
    values = figure(np.eye(number))
    return _around(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(number), number)


def percentile(figure: Figure, number: int, generator: np.random.Generator) -> list[Interval]:
    """Percentile bootstrap of scipy over pairs."""
    return _bootstrap(figure, number, generator, "percentile")


def bca(figure: Figure, number: int, generator: np.random.Generator) -> list[Interval]:
    """BCa bootstrap of scipy over pairs."""
    return _bootstrap(figure, number, generator, "BCa")


def studentised(figure: Figure, number: int, generator: np.random.Generator) -> list[Interval]:
    """The bootstrap of the figure over its own jackknife error."""
    counts = generator.multinomial(number, np.full(number, 1 / number), _NUM_STUDENTISED)
    value, error = _value(figure, number), float(_errors(figure, np.ones((1, number)))[0])
    errors = np.maximum(_errors(figure, counts), 1e-9)  # all pairs may be one
    ratios = (figure(counts / number) - value) / errors
    tails = [np.quantile(ratios, [(1 + level) / 2, (1 - level) / 2]) for level in LEVELS]
    return [(value - error * float(above), value - error * float(below)) for above, below in tails]


METHODS: Mapping[str, Callable[[Figure, int, np.random.Generator], list[Interval]]] = {
    USED: leaving_half_out,
    "leaving one out, t": leaving_one_out,
    "t of the pairs' own figures": pair_by_pair,
    "percentile bootstrap": percentile,
    "BCa bootstrap": bca,
    "studentised bootstrap": studentised,
}
"""An interval for each of ``LEVELS``, of a figure of so many pairs."""
ROWS = {
    SMOOTHED: [*(("factor", method) for method in METHODS), ("end", USED)],
    PLAIN: [("factor", USED), ("end", USED)],
}
"""By noise, what is counted: figure and method."""


def _value(figure: Figure, number: int) -> float:
    return float(figure(np.full((1, number), 1 / number))[0])


def _around(value: float, error: float, number: int) -> list[Interval]:
    margins = [float(stats.t.ppf((1 + level) / 2, number - 1)) * error for level in LEVELS]
    return [(value - margin, value + margin) for margin in margins]


def _errors(figure: Figure, counts: NDArray[Any]) -> Floats:
    """Return the jackknife error of each resample, one of its pairs left out at a time. Shape ``(R,)``."""
    number = counts.shape[1]
    left = counts[:, None, :] - np.eye(number)[None]  # row j leaves one of pair j out
    left = np.where(counts[:, :, None] > 0, left, counts[:, None, :])
    found = figure((left / left.sum(2, keepdims=True)).reshape(-1, number)).reshape(counts.shape)
    mean = np.average(found, axis=1, weights=counts)
    return np.asarray(np.sqrt((number - 1) / number * (counts * (found - mean[:, None]) ** 2).sum(1)))


def _bootstrap(figure: Figure, number: int, generator: np.random.Generator, method: str) -> list[Interval]:
    def of_rows(rows: NDArray[np.int64], axis: int) -> Floats:
        drawn = rows.reshape(-1, rows.shape[-1])
        counts = (drawn[:, :, None] == np.arange(number)).sum(1)
        return figure(counts / drawn.shape[1]).reshape(rows.shape[:-1])

    result, found = None, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BCa of pairs that are all alike is not a number, and holds nothing
        for level in LEVELS:
            result = stats.bootstrap(
                (np.arange(number),),
                of_rows,
                n_resamples=0 if result else _NUM_RESAMPLES,
                bootstrap_result=result,
                confidence_level=level,
                method=method,
                rng=generator,
            )
            found.append((float(result.confidence_interval.low), float(result.confidence_interval.high)))
    return found


def coverage(of: Population, speed: float, num_pairs: int, smoothing: float, num_studies: int) -> list[dict[str, Any]]:
    """Return by figure, method and level how many intervals held the truth, and their median width."""
    generator = np.random.default_rng([num_pairs, round(100 * speed)])
    truths = {name: _value(make(of.curves(speed)[None]), 1) for name, make in FIGURES.items()}
    found: dict[tuple[str, str, float], list[Interval]] = {}
    for _ in range(num_studies):
        study = of.draw(num_pairs, speed, smoothing, generator)
        for name, method in ROWS[smoothing]:
            intervals = METHODS[method](FIGURES[name](study), num_pairs, generator)
            for level, bounds in zip(LEVELS, intervals, strict=True):
                found.setdefault((name, method, level), []).append(bounds)
    return [
        {
            "population": of.name,
            "speed": speed,
            "pairs": num_pairs,
            "smoothing": smoothing,
            "figure": name,
            "method": method,
            "level": level,
            "truth": round(truths[name], 6),
            "studies": num_studies,
            "covered": sum(low <= truths[name] <= high for low, high in bounds),
            "width": round(float(np.nanmedian([high - low for low, high in bounds])), 4),
        }
        for (name, method, level), bounds in found.items()
    ]


def lowest(rows: Sequence[Mapping[str, Any]], **of: Any) -> float:
    """Return the lowest coverage of the rows that are like ``of``, over populations and speeds."""
    return min(row["covered"] / row["studies"] for row in rows if of.items() <= row.items())


def width(rows: Sequence[Mapping[str, Any]], method: str) -> float:
    """Return how wide a method's intervals of the factor of five pairs are beside those of the one that is used."""
    of = {"figure": "factor", "pairs": 5, "level": LEVELS[0], "smoothing": SMOOTHED}
    mine, used = (
        [row["width"] for row in rows if (of | {"method": name}).items() <= row.items()] for name in (method, USED)
    )
    return float(np.mean(np.divide(mine, used)))


def table() -> str:
    """Return the lowest coverage by figure, method and number of pairs, and how wide intervals are."""
    rows = json.loads(FILE.read_text())["rows"]
    lines = []
    for smoothing, counted in ROWS.items():
        for figure, method in counted:
            of = {"smoothing": smoothing, "figure": figure, "method": method}
            cells = [
                " / ".join(f"{lowest(rows, **of, pairs=pairs, level=level):.1%}" for level in LEVELS) for pairs in PAIRS
            ]
            wide = f"{width(rows, method):.2f}" if (figure, smoothing) == ("factor", SMOOTHED) else ""
            name = figure if smoothing else f"{figure}, noise as committed"
            lines.append([name, f"**{method}**" if method == USED else method, *cells, wide])
    return markdown(["figure", "interval", *(f"{pairs} pairs" for pairs in PAIRS), "width, 5 pairs"], lines)


def main() -> None:
    """Simulate, save and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=NUM_STUDIES, help="of each kind")
    arguments = parser.parse_args()
    rows = []
    for of in populations():
        for speed in (1.0, of.speed):
            for pairs in PAIRS:
                for smoothing in ROWS:
                    rows += coverage(of, speed, pairs, smoothing, arguments.studies)
                print(f"{of.name}, {speed:g} times as fast, {pairs} pairs: done", flush=True)
    FILE.write_text(json.dumps(header("research.studies.coverage") | {"rows": rows}, indent=1) + "\n")
    print(table(), end="")


if __name__ == "__main__":
    main()
