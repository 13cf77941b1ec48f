"""Curricula with adaptive sampling, on the default model: ``python -m studies.curriculum``.

Trains ``ada_seq_balance`` with uniform order, a difficulty band and posterior sampling, three seeds each, 30 steps of
16 prompts: nine runs, some hours on two cores. The default 2,000 training prompts would not come round once in 30
steps, and a curriculum chooses by what it has seen before: 160 prompts come round three times. A killed study goes on
where it was, and runs with a committed result are not repeated. Writes ``docs/studies/curriculum.png`` and prints the
table: held-out avg@4 at equal generated tokens, mean and spread.
"""

from __future__ import annotations

import argparse

from studies.comparison import at_equal_tokens, curves_of, plot, table
from studies.runs import ROOT, StudyRun

METHOD = "ada_seq_balance"
CURRICULA = ("uniform", "difficulty_band", "posterior")


def study_runs(*, num_seeds: int, num_steps: int, num_prompts: int, num_train: int) -> dict[str, list[StudyRun]]:
    """Return the runs of each curriculum."""
    shared = (
        f"num_steps={num_steps}",
        f"data.prompts_per_step={num_prompts}",
        f"data.source.num_train={num_train}",
        "callbacks.evaluation.every_n_steps=5",
        "callbacks.evaluation.num_prompts=128",
    )
    return {
        name: [
            StudyRun(f"curriculum/{name}", METHOD, seed, (*shared, f"curriculum={name}")) for seed in range(num_seeds)
        ]
        for name in CURRICULA
    }


def main() -> None:
    """Train what is missing, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs per curriculum")
    parser.add_argument("--steps", type=int, default=30, help="rollout steps per run")
    parser.add_argument("--prompts", type=int, default=16, help="prompts per step")
    parser.add_argument("--train-prompts", type=int, default=160, help="training prompts")
    parser.add_argument("--report-only", action="store_true", help="use the runs that are done, train nothing")
    arguments = parser.parse_args()
    groups = study_runs(
        num_seeds=arguments.seeds,
        num_steps=arguments.steps,
        num_prompts=arguments.prompts,
        num_train=arguments.train_prompts,
    )
    if not arguments.report_only:
        for runs in zip(*groups.values(), strict=True):  # a seed of every curriculum, then the next
            for run in runs:
                run.train()
                run.result()
    curves = curves_of(groups)
    plot(curves, ROOT / "docs" / "studies" / "curriculum.png")
    print(table(at_equal_tokens(curves)))


if __name__ == "__main__":
    main()
