"""What an adaptive step costs beside a fixed one: ``python -m research.benchmarks.adaptive_cost``.

Seconds per step of ``ada_seq_balance`` over GRPO with the same prompts per step, twice: with groups of 4, which is what
the paper compares with (2.8 times on 1.5B, arXiv:2510.04996v3, Table 3), and with groups so large that both generate
about as many tokens, which asks what adaptivity itself costs. One real training run whose steps take the three methods
in turns, so that all see the same policy on its way. GRPO trains on every response it draws, so the seconds of the
rollouts are compared on their own too, per token. Writes ``docs/performance/adaptive_cost.json``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

from research.benchmarks.report import save
from research.benchmarks.training import Job

ADAPTIVE, SMALL, EQUAL = "ada_seq_balance", "grpo n=4", "grpo, as many tokens"
METHODS = (ADAPTIVE, SMALL, EQUAL)


def main() -> None:
    """Train, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="steps of each method; the first of each is not counted")
    parser.add_argument("overrides", nargs="*", help="of the configuration")
    arguments = parser.parse_args()
    num_steps = len(METHODS) * arguments.rounds
    with tempfile.TemporaryDirectory(prefix="ada_lightning-") as folder:
        job = Job(["+experiment=ada_seq_balance", f"num_steps={num_steps}", *arguments.overrides], Path(folder))
        sizes = take_turns(job)
        rows = job.fit()
    steps = {method: rows[index :: len(METHODS)][1:] for index, method in enumerate(METHODS)}
    report(steps, sizes[1:])


def take_turns(job: Job) -> list[int]:
    """Let every third step be one method's; return a list that fills with the group sizes of equal tokens."""
    from lightning.pytorch import Callback

    from ada_lightning.methods.advantages import GroupNormalizedAdvantage
    from ada_lightning.methods.sampling import UniformSampler
    from ada_lightning.methods.selection import AllSelection
    from callbacks.adaptive_sampling import AdaptiveSampling

    (sampling,) = (part for part in job.run.callbacks if isinstance(part, AdaptiveSampling))
    adaptive = sampling.method.sampler, sampling.method.selection, job.run.policy.advantage
    sizes: list[int] = []

    class Turns(Callback):
        """Lightning fetches the next rollout after this hook."""

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            rules, method = sampling.method, METHODS[(batch_idx + 1) % len(METHODS)]
            if method == ADAPTIVE:
                rules.sampler, rules.selection, pl_module.advantage = adaptive
                return
            if method == SMALL:
                sizes.append(max(2, round(float(trainer.callback_metrics["rollout/num_sampled"]) / 32)))
            rules.sampler = UniformSampler(group_size=4 if method == SMALL else sizes[-1])
            rules.selection, pl_module.advantage = AllSelection(), GroupNormalizedAdvantage()

    job.run.callbacks.append(Turns())
    return sizes


def report(steps: dict[str, list[dict[str, float]]], sizes: list[int]) -> None:
    """Medians of each method, and of the ratios within each turn."""

    def median(method: str, column: str) -> float:
        return statistics.median(row[column] for row in steps[method])

    def ratio(baseline: str, column: str, per: str = "") -> float:
        return statistics.median(
            (mine[column] / (mine[per] if per else 1)) / (theirs[column] / (theirs[per] if per else 1))
            for mine, theirs in zip(steps[ADAPTIVE], steps[baseline], strict=True)
        )

    print(
        f"\n{'median of a step':<24}{'step':>8}{'rollout':>9}{'update':>8}{'responses':>11}{'tokens':>8}{'signal':>8}"
    )
    for method in METHODS:
        print(
            f"{method:<24}{median(method, 'step_s'):>7.1f}s{median(method, 'time/rollout_s'):>8.1f}s"
            f"{median(method, 'time/update_s'):>7.1f}s{median(method, 'rollout/num_sampled'):>11.0f}"
            f"{median(method, 'rollout/generated_tokens'):>8.0f}{median(method, 'rollout/signal_ratio'):>8.0%}"
        )
    ratios = {
        baseline: {
            "step": ratio(baseline, "step_s"),
            "step_per_token": ratio(baseline, "step_s", "rollout/generated_tokens"),
            "rollout": ratio(baseline, "time/rollout_s"),
            "rollout_per_token": ratio(baseline, "time/rollout_s", "rollout/generated_tokens"),
        }
        for baseline in (SMALL, EQUAL)
    }
    for baseline, row in ratios.items():
        print(
            f"ada_seq_balance over {baseline}: step {row['step']:.2f}, per token {row['step_per_token']:.2f}; "
            f"rollout {row['rollout']:.2f}, per token {row['rollout_per_token']:.2f}"
        )
    kept_columns = ("step_s", "time/rollout_s", "time/update_s", "rollout/num_sampled", "rollout/generated_tokens")
    kept = {method: [{name: row[name] for name in kept_columns} for row in rows] for method, rows in steps.items()}
    save("adaptive_cost", steps=kept, group_sizes=sizes, ratios=ratios)


if __name__ == "__main__":
    main()
