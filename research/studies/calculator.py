"""Does a model learn to use a tool? ``python -m research.studies.calculator``; ``--report-only`` trains nothing.

SmolLM2-135M-Instruct on ``experiment=environments/calculator``: Seq-balance for 30 steps, and GRPO for as many
generated tokens as Seq-balance drew with the same seed. One run at a time; a study that was killed goes on where it
was. Writes ``docs/studies/calculator/runs.jsonl``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from research.benchmarks.report import DOCS, markdown
from research.studies.curves import TOKENS, Estimate, jackknifed
from research.studies.methods import QUIET
from research.studies.runs import Results, StudyRun, train_missing

OURS, GRPO = "ada_seq_balance", "grpo"
SEEDS = (0, 1, 2)
NUM_STEPS = 30
NUM_EVALUATIONS = 3
"""After the one before training."""
LR, PROMPTS = 2e-6, 4
"""Of rates tried on a seed that is not among these, higher ones had learned the task after a few steps."""
FILE = DOCS / "studies" / "calculator" / "runs.jsonl"

Row = Mapping[str, Any]


def calculator_run(method: str, seed: int, *end: str, lr: float = LR, study: str = "calculator") -> StudyRun:
    """Return a run of a method on the calculator's sums.

    Args:
        method: an experiment.
        seed: of the run, its sums included.
        end: settings that say when it ends and is evaluated.
        lr: learning rate.
        study: folder of its runs.
    """
    overrides = (
        f"optimizer.lr={lr:g}",
        f"data.prompts_per_step={PROMPTS}",
        "callbacks.evaluation.num_prompts=128",
        "callbacks.evaluation.num_samples=1",
        "callbacks.checkpoint.every_n_steps=10",
        *end,
        *QUIET,
    )
    return StudyRun(study, f"[{method},environments/calculator]", seed, overrides, label=method)


def our_run(seed: int) -> StudyRun:
    """Return the run of a fixed number of steps."""
    every = f"callbacks.evaluation.every_n_steps={NUM_STEPS // NUM_EVALUATIONS}"
    return calculator_run(OURS, seed, f"num_steps={NUM_STEPS}", every)


def grpo_run(seed: int, ours: Row) -> StudyRun:
    """Return the run that ends with the step in which it has drawn as many tokens as ours did."""
    num_tokens = int(ours["curve"][-1][TOKENS])
    return calculator_run(
        GRPO,
        seed,
        "num_steps=100000",
        f"callbacks.budget.max_generated_tokens={num_tokens}",
        f"callbacks.evaluation.every_n_tokens={num_tokens // NUM_EVALUATIONS}",
        "callbacks.evaluation.every_n_steps=0",
    )


def known_rows(results: Results) -> dict[str, dict[int, Row]]:
    """Return the results by method and seed, of seeds that both methods have."""
    found: dict[str, dict[int, Row]] = {OURS: {}, GRPO: {}}
    for seed in SEEDS:
        if results.has(our_run(seed)) and results.has(grpo_run(seed, ours := results.row(our_run(seed)))):
            found[OURS][seed], found[GRPO][seed] = ours, results.row(grpo_run(seed, ours))
    return found


def table() -> str:
    """Return held-out rates before and after, and what they took."""
    results = Results(FILE)
    found = known_rows(results)
    if not found[OURS]:
        alone = [results.row(our_run(seed)) for seed in SEEDS if results.has(our_run(seed))]
        reached = ", ".join(
            f"{before(row):.3f} -> {after(row):.3f} (seed {row['seed']}, {row['curve'][-1][TOKENS]:,.0f} tokens)"
            for row in alone
        )
        return f"No seed of both methods yet. `{OURS}` alone: {reached or 'none'}.\n"
    lines = []
    for method, rows in found.items():
        rates = (over_seeds(rows, each).written(".3f") for each in (before, after))
        gain = over_seeds(rows, lambda row: after(row) - before(row)).written("+.3f")
        over = over_seeds(rows, lambda row: after(row) - after(found[GRPO][row["seed"]])).written("+.3f")
        ends = [row["curve"][-1] for row in rows.values()]
        costs = [f"{fmean(end[cost] for end in ends):,.0f}" for cost in (TOKENS, "trained_tokens", "updates")]
        minutes = f"{fmean(end['seconds'] for end in ends) / 60:.0f}"
        lines.append([f"`{method}`", *rates, gain, "" if method == GRPO else over, *costs, minutes, len(rows)])
    names = ("held-out before", "after", "gain", "over GRPO", "tokens drawn", "trained", "updates", "minutes", "seeds")
    methods, *figures = zip(*lines, strict=True)
    return markdown(["mean over seeds", *methods], [[name, *of] for name, of in zip(names, figures, strict=True)])


def before(row: Row) -> float:
    """Return the held-out rate of the model as it came."""
    return float(row["curve"][0]["held_out"])


def after(row: Row) -> float:
    """Return the held-out rate at the end."""
    return float(row["curve"][-1]["held_out"])


def over_seeds(rows: Mapping[int, Row], figure: Callable[[Row], float]) -> Estimate:
    """Return the mean of a figure of runs, with the t interval where there are enough seeds for one."""
    return jackknifed(lambda seeds: fmean(figure(rows[seed]) for seed in seeds), list(rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, each seed of ours before that of GRPO, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0, help="of the run; all cores unless given")
    parser.add_argument("--report-only", action="store_true", help="use the runs that are done, train nothing")
    options = parser.parse_args(arguments)
    results = Results(FILE, discard_checkpoints=True)
    try:
        if not options.report_only:
            train = partial(train_missing, results=results, num_jobs=1, num_threads=options.threads)
            for seed in SEEDS:
                train([our_run(seed)])
                train([grpo_run(seed, results.row(our_run(seed)))])
        print(table(), end="")
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
