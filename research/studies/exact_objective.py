"""The exact log objective beside the official rule: ``python -m research.studies.exact_objective``.

Trains ``ada_seq_balance`` and ``ada_seq_balance_official`` with three seeds each, 30 steps of 16 prompts, about an hour
on two cores. A killed study goes on where it was, and runs with a committed result are not repeated. Writes
``docs/studies/exact_objective.png`` and prints the table: held-out avg@4 at equal generated tokens, mean and spread.
"""

from __future__ import annotations

import argparse

from research.studies.comparison import at_equal_tokens, curves_of, plot, table
from research.studies.runs import ROOT, StudyRun

METHODS = ("ada_seq_balance", "ada_seq_balance_official")
OUTPUT = ROOT / "docs" / "studies"


def main() -> None:
    """Train what is missing, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs per method")
    parser.add_argument("--steps", type=int, default=30, help="rollout steps per run")
    parser.add_argument("--prompts", type=int, default=16, help="prompts per step")
    parser.add_argument("--report-only", action="store_true", help="use the runs that are done, train nothing")
    arguments = parser.parse_args()
    overrides = (
        f"num_steps={arguments.steps}",
        f"data.prompts_per_step={arguments.prompts}",
        "callbacks.evaluation.every_n_steps=5",
        "callbacks.evaluation.num_prompts=128",
    )
    runs = [
        StudyRun("exact_objective", method, seed, overrides) for seed in range(arguments.seeds) for method in METHODS
    ]
    if not arguments.report_only:
        for run in runs:
            run.train()
            run.result()
    groups = {method: [run for run in runs if run.method == method] for method in METHODS}
    curves = curves_of(groups)
    plot(curves, OUTPUT / "exact_objective.png")
    print(table(at_equal_tokens(curves)))


if __name__ == "__main__":
    main()
