"""Our side of ``research.benchmarks.step_vs_trl``: seconds of steps of ``+experiment=grpo`` on the shared task."""

from __future__ import annotations

import argparse
import cProfile
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from research.benchmarks.step_task import CONF, TASKS, our_overrides, prompts_in_order, report_steps


def main() -> None:
    """Train a few steps and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every-group", action="store_true", help="compute groups without signal too")
    parser.add_argument("--profile", help="write a cProfile of CPU seconds, first step left out, to this file")
    parser.add_argument("overrides", nargs="*", help="more overrides of the configuration")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        settings = our_overrides(
            num_steps=arguments.steps,
            seed=arguments.seed,
            run_dir=run_dir,
            skip_groups_without_signal=not arguments.every_group,
        )
        # Standard output is the parent's; what a run tells its user goes where warnings go.
        parent, os.environ["COLUMNS"] = os.dup(1), "100"
        os.dup2(2, 1)
        steps = train([*settings, *arguments.overrides], run_dir, arguments.profile)
        os.dup2(parent, 1)
    report_steps(steps)


def train(overrides: list[str], run_dir: Path, profile: str | None) -> list[dict[str, float]]:
    """Run ``train.py``'s own job with these overrides and return its figures, step by step."""
    from hydra import compose, initialize_config_dir
    from lightning.pytorch import Callback

    from ada_lightning.config.check import check_config
    from ada_lightning.programs.training_run import Run
    from ada_lightning.run.run_dir import RunDir
    from callbacks.metrics_csv import read_metrics

    class Stopwatch(Callback):
        """Seconds from one finished update to the next: everything between them, logging included."""

        def __init__(self) -> None:
            self.steps: list[dict[str, float]] = []
            self.profile = cProfile.Profile(time.process_time)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self._started, self._cpu_started = time.monotonic(), time.process_time()

        def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
            now, cpu_now = time.monotonic(), time.process_time()
            self.steps.append({"step_s": now - self._started, "cpu_s": cpu_now - self._cpu_started})
            self._started, self._cpu_started = now, cpu_now
            if profile and len(self.steps) == 1:  # the first step compiles and fills caches
                self.profile.enable()

    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", overrides)
    check_config(cfg)
    folder = RunDir(run_dir)
    folder.claim(resume=False)
    run = Run(cfg, folder)
    expected = prompts_in_order(run.callbacks[0].tokenizer, num_steps=1, seed=cfg.seed)
    if [p.prompt_ids for p in run.datamodule.step_prompts(0)] != [p.prompt_ids for p in expected]:
        raise RuntimeError(f"conf/data no longer gives the prompts of {TASKS}, so the work is not the same")
    stopwatch = Stopwatch()
    run.callbacks.append(stopwatch)
    try:
        run.fit()
    finally:
        if profile:
            stopwatch.profile.disable()
            stopwatch.profile.dump_stats(profile)
    return [timed | figures(row) for timed, row in zip(stopwatch.steps, read_metrics(folder.metrics_csv), strict=True)]


def figures(row: dict[str, float]) -> dict[str, float]:
    """What the table shows, from a row of the run's metrics.csv."""
    phases = {name.removeprefix("time/"): seconds for name, seconds in row.items() if name.startswith("time/")}
    return {
        **phases,
        "tokens": row["rollout/generated_tokens"],
        "responses": row["rollout/num_sampled"],
        "signal_ratio": row["rollout/signal_ratio"],
        "reward": row["rollout/reward_pool"],
        "computed_tokens": row["train/computed_tokens"],
    }


if __name__ == "__main__":
    main()
