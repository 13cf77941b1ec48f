"""Our side of ``research.benchmarks.step_vs_trl``: seconds of steps of ``+experiment=grpo`` on the shared task."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from research.benchmarks.step_task import TASKS, Work, our_overrides, prompts_in_order, report_steps, side_parser
from research.benchmarks.training import Job


def main() -> None:
    """Train a few steps and print their figures."""
    parser = side_parser(__doc__)
    parser.add_argument("--every-group", action="store_true", help="compute groups without signal too")
    parser.add_argument("overrides", nargs="*", help="more overrides of the configuration")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        settings = our_overrides(
            num_steps=arguments.steps,
            seed=arguments.seed,
            run_dir=run_dir,
            skip_groups_without_signal=not arguments.every_group,
            work=Work(arguments.prompts, arguments.max_new_tokens),
        )
        # Standard output is the parent's; what a run tells its user goes where warnings go.
        parent, os.environ["COLUMNS"] = os.dup(1), "100"
        os.dup2(2, 1)
        steps = train([*settings, *arguments.overrides])
        os.dup2(parent, 1)
    report_steps(steps)


def train(overrides: list[str]) -> list[dict[str, float]]:
    """Run ``train.py``'s own job with these overrides and return its figures, step by step."""
    job = Job(overrides)
    data, tokenizer = job.run.datamodule, job.run.callbacks[0].tokenizer
    expected = prompts_in_order(tokenizer, num_steps=1, seed=job.run.cfg.seed, num_prompts=data.prompts_per_step)
    if [p.prompt_ids for p in data.step_prompts(0)] != [p.prompt_ids for p in expected]:
        raise RuntimeError(f"conf/data no longer gives the prompts of {TASKS}, so the work is not the same")
    return [figures(row) for row in job.fit()]


def figures(row: dict[str, float]) -> dict[str, float]:
    """What the table shows, from a row of the run's metrics.csv."""
    phases = {name.removeprefix("time/"): seconds for name, seconds in row.items() if name.startswith("time/")}
    return {
        "step_s": row["step_s"],
        "cpu_s": row["cpu_s"],
        **phases,
        "tokens": row["rollout/generated_tokens"],
        "responses": row["rollout/num_sampled"],
        "signal_ratio": row["rollout/signal_ratio"],
        "reward": row["rollout/reward_pool"],
        "computed_tokens": row["train/computed_tokens"],
    }


if __name__ == "__main__":
    main()
