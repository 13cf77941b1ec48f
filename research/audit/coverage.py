"""Do the intervals of an audit hold what they should? ``python -m research.audit.coverage``.

Draws 1,000 logs of a population whose figures are known, audits each, and counts how many intervals hold the truth.
Results stay in ``docs/audit/coverage.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping

from ada_lightning.audit.figures import RULE_FIGURES, Audit, audit
from ada_lightning.audit.intervals import Estimate
from research.audit.synthetic import Population, draw
from research.audit.truth import true_figures
from research.benchmarks.report import DOCS, header

FILE = DOCS / "audit" / "coverage.json"


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--prompts", type=int, default=Population().num_prompts)
    arguments = parser.parse_args()
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


if __name__ == "__main__":
    main()
