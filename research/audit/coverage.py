"""Do intervals over prompts hold what they should? ``python -m research.audit.coverage``.

Draws 1,000 logs of a population whose figures are known, audits each, and counts how many intervals hold the truth.
Results stay in ``docs/audit/coverage.json``. With ``--evaluation`` it does so for the intervals of ``ada evaluate``,
beside two others, and the results stay in ``docs/audit/evaluation.json``; that takes a few minutes.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit, logit

from ada_lightning.analysis.evaluation.intervals import Floats, estimate_means
from ada_lightning.audit.figures import RULE_FIGURES, Audit, audit
from ada_lightning.audit.intervals import Estimate
from research.audit.synthetic import Population, draw
from research.audit.truth import true_figures
from research.benchmarks.report import DOCS, header, markdown

FILE = DOCS / "audit" / "coverage.json"
EVALUATION = DOCS / "audit" / "evaluation.json"
PROMPTS = (5, 10, 20, 50, 200)
RESPONSES = (1, 4, 16)
PAPER_WEIGHTS = (500, 272, 675, 230)
NUM_TRUTH = 1_000_000
_NUM_BCA = 1000
"""Draws that BCa intervals are made of: they take longest."""

Draw = Callable[[np.random.Generator, tuple[int, ...], int], Floats]
"""Figures of prompts, each the mean of so many responses; shape as given."""


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--prompts", type=int, default=Population().num_prompts)
    parser.add_argument("--evaluation", action="store_true", help="count for the intervals of ada evaluate")
    arguments = parser.parse_args()
    if arguments.evaluation:
        content = header("research.audit.coverage --evaluation") | {"rows": evaluation_coverage()}
        EVALUATION.write_text(json.dumps(content) + "\n")
        print(table(), end="")
        return
    population = Population(num_prompts=arguments.prompts)
    found = coverage(population, range(arguments.seeds))
    shares = [figure["covered"] / figure["intervals"] for figure in found.values() if figure["intervals"]]
    content = header("research.audit.coverage") | {
        "population": vars(population),
        "seeds": arguments.seeds,
        "all": sum(figure["covered"] for figure in found.values())
        / sum(figure["intervals"] for figure in found.values()),
        "lowest": min(shares),
        "highest": max(shares),
        "figures": found,
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{content['all']:.4f} of all intervals hold the truth; by figure {min(shares):.4f} to {max(shares):.4f}")


def coverage(population: Population, seeds: range, num_resamples: int = 2000) -> dict[str, dict[str, float]]:
    """Return by figure: ``truth``, ``mean`` over seeds, number of ``intervals``, how many held it (``covered``).

    A figure that no resample changes, such as what a fixed number of responses costs, has none.
    """
    truth = true_figures(population)
    found: dict[str, dict[str, float]] = {
        name: {"truth": value, "mean": 0.0, "intervals": 0, "covered": 0} for name, value in truth.items()
    }
    for seed in seeds:
        estimates = estimates_of(audit(draw(population, seed), seed=seed, num_resamples=num_resamples))
        for name, value in truth.items():
            estimate = estimates[name]
            found[name]["mean"] += estimate.value / len(seeds)
            if estimate.low is not None and estimate.high is not None:
                found[name]["intervals"] += 1
                found[name]["covered"] += estimate.low <= value <= estimate.high
    return found


def estimates_of(found: Audit) -> Mapping[str, Estimate]:
    """Return the figures of an audit under the names of :func:`research.audit.truth.true_figures`."""
    rules = {
        f"{row.name}/{name}": getattr(row, name)
        for row in found.rules
        if row.versus_logged is not None and not row.is_extrapolated
        for name in RULE_FIGURES
    }
    return dict(found.figures) | rules


def evaluation_coverage(num_draws: int = 10_000, prompts: Sequence[int] = PROMPTS) -> list[dict[str, Any]]:
    """Return by kind of figure, population, prompts and responses the share of intervals that hold the truth."""
    generator, rows = np.random.default_rng(0), []
    for (kind, name), (of_prompts, ends) in populations().items():
        truth = float(of_prompts(generator, (NUM_TRUTH,), 1).mean())
        for number in prompts:
            for responses in RESPONSES:
                values = of_prompts(generator, (number, num_draws), responses)
                held = {"as printed": _covered([values], (1.0,), ends, truth)}
                if kind == "share":
                    held |= _others(values, truth, generator)
                about = {"kind": kind, "population": name, "prompts": number, "responses": responses}
                rows += [about | {"interval": interval, "covered": covered} for interval, covered in held.items()]
    shares = [of_prompts for (kind, _), (of_prompts, _) in populations().items() if kind == "share"]
    truths = [float(of_prompts(generator, (NUM_TRUTH,), 1).mean()) for of_prompts in shares]
    for first in range(len(shares)):
        picked = [(first + step) % len(shares) for step in range(len(PAPER_WEIGHTS))]
        for name, of, weights in (("of four sets", picked, PAPER_WEIGHTS), ("of two sets", picked[:2], (1, 1))):
            truth = float(np.average([truths[place] for place in of], weights=weights))
            for number in prompts:
                sizes = [number, 10 * number] if len(of) == 2 else [number] * len(of)
                for responses in RESPONSES:
                    values_by_set = [
                        shares[place](generator, (size, num_draws // 5), responses)
                        for place, size in zip(of, sizes, strict=True)
                    ]
                    about = {"kind": "sets", "population": f"{name}, {first}", "prompts": number}
                    covered = _covered(values_by_set, weights, (0.0, 1.0), truth)
                    rows.append(about | {"responses": responses, "interval": "as printed", "covered": covered})
    return rows


def populations() -> dict[tuple[str, str], tuple[Draw, tuple[float, float]]]:
    """Return by kind of figure and name how prompts are drawn, and the ends of the figure.

    Shares are of right responses; a difference is that of two models with pass rates that go together. Rewards are
    1, or 0.1 for the form alone, and lengths are log-normal, cut at the longest; one in a hundred goes on to there.
    """
    rates: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Floats]] = {
        "Beta(0.2, 0.8)": lambda generator, shape: generator.beta(0.2, 0.8, shape),
        "Beta(0.5, 2)": lambda generator, shape: generator.beta(0.5, 2, shape),
        "Beta(2, 2)": lambda generator, shape: generator.beta(2, 2, shape),
        "near 0 or 1": lambda generator, shape: generator.beta(0.02, 0.18, shape),
        "one in ten is easy": lambda generator, shape: np.where(
            generator.random(shape) < 0.1, generator.beta(8, 2, shape), generator.beta(0.5, 50, shape)
        ),
        "all 0.1": lambda _, shape: np.full(shape, 0.1),
    }
    found: dict[tuple[str, str], tuple[Draw, tuple[float, float]]] = {}
    for name, of in rates.items():
        found["share", name] = (partial(_shares, of), (0.0, 1.0))
        found["reward", name] = (partial(_rewards, of), (0.0, 1.0))
        for change, shift, spread, learned in (("alike", 0, 0, 0), ("better", 0.5, 0.7, 0), ("learned", 0, 0, 0.05)):
            both = partial(_differences, of, shift, spread, learned)
            found["difference", f"{name}, {change}"] = (both, (-1.0, 1.0))
    for median, spread in ((0.1, 0.3), (0.1, 0.8), (0.5, 0.5)):
        found["length", f"median {median}, spread {spread}"] = (partial(_lengths, median, spread), (0.0, 1.0))
    return found


def _shares(
    rates: Callable[..., Floats], generator: np.random.Generator, shape: tuple[int, ...], responses: int
) -> Floats:
    return generator.binomial(responses, rates(generator, shape)) / responses


def _rewards(
    rates: Callable[..., Floats], generator: np.random.Generator, shape: tuple[int, ...], responses: int
) -> Floats:
    right = generator.binomial(responses, rates(generator, shape))
    return (right + 0.1 * generator.binomial(responses - right, generator.beta(2, 1, shape))) / responses


def _differences(
    rates: Callable[..., Floats],
    shift: float,
    spread: float,
    learned: float,
    generator: np.random.Generator,
    shape: tuple[int, ...],
    responses: int,
) -> Floats:
    before = np.clip(rates(generator, shape), 1e-9, 1 - 1e-9)
    after = expit(logit(before) + shift + spread * generator.normal(size=shape))
    after = np.where(generator.random(shape) < learned, np.maximum(after, 0.95), after)
    return (generator.binomial(responses, after) - generator.binomial(responses, before)) / responses


def _lengths(
    median: float, spread: float, generator: np.random.Generator, shape: tuple[int, ...], responses: int
) -> Floats:
    of_prompt = median * np.exp(spread * generator.normal(size=shape))
    total = np.zeros(shape)
    for _ in range(responses):
        length = np.minimum(of_prompt * np.exp(spread * generator.normal(size=shape)), 1.0)
        total += np.where(generator.random(shape) < 0.01, 1.0, length)
    return total / responses


def _covered(
    values_by_set: Sequence[Floats], weights: Sequence[float], ends: tuple[float, float], truth: float
) -> float:
    """Count how many draws, each a column, have an interval that holds the truth."""
    columns = np.repeat(np.array(ends)[:, None], values_by_set[0].shape[1], axis=1)
    found = estimate_means(values_by_set, weights, columns)
    return sum(of.low <= truth <= of.high for of in found if of.low is not None and of.high is not None) / len(found)


def _others(values: Floats, truth: float, generator: np.random.Generator) -> dict[str, float]:
    """Count for Student's t and for the BCa bootstrap of scipy; where all prompts agree they have no width."""
    error = stats.t.ppf(0.975, len(values) - 1) * values.std(axis=0, ddof=1) / len(values) ** 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of draws without a spread
        low, high = stats.bootstrap(
            (values[:, :_NUM_BCA],), np.mean, n_resamples=999, batch=50, method="BCa", rng=generator
        ).confidence_interval
    return {
        "t over prompts": float((np.abs(values.mean(axis=0) - truth) <= error).mean()),
        "BCa bootstrap": float(((low <= truth) & (truth <= high)).mean()),
    }


def lowest(rows: Sequence[Mapping[str, Any]], **of: Any) -> float:
    """Return the lowest coverage of the rows that are like ``of``."""
    return min(float(row["covered"]) for row in rows if of.items() <= row.items())


def table() -> str:
    """Return the lowest coverage by figure, interval and number of prompts."""
    rows = json.loads(EVALUATION.read_text())["rows"]
    kinds = {
        "share": "pass rate",
        "reward": "graded reward",
        "length": "length",
        "difference": "difference of two models",
        "sets": "average of sets",
    }
    lines = [
        [f"{name}, **{interval}**" if interval == "as printed" else f"{name}, {interval}"]
        + [f"{lowest(rows, kind=kind, interval=interval, prompts=number):.1%}" for number in PROMPTS]
        for kind, name in kinds.items()
        for interval in dict.fromkeys(row["interval"] for row in rows if row["kind"] == kind)
    ]
    return markdown(["figure, interval", *(f"{number} prompts" for number in PROMPTS)], lines)


if __name__ == "__main__":
    main()
