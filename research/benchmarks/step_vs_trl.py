"""Seconds per GRPO step, ours and TRL's, on the same work: ``python -m research.benchmarks.step_vs_trl``.

SmolLM2-135M on a CPU, 16 chain_sum prompts x 4 responses of at most 48 tokens, temperature 1, no KL, one optimiser step
per rollout. Both sides get the same prompts in every step, the same verifier, threads, clipping, AdamW and loss
reduction; the sampled responses differ, so seconds per generated token are reported beside seconds per step. In turns,
each in a process of its own, the first step of each process left out. Prints medians and ratios, writes
``docs/performance/step_vs_trl.json``.

``--search`` first finds the settings with which TRL is fastest: responses that pass through its policy at once, and
transformers' continuous batching. They are kept in ``docs/performance/step_vs_trl_search.json``, by which later runs
go.

What differs: TRL generates with transformers and we with vLLM (bfloat16 weights on both sides, except that the
``autocast`` variant of TRL computes in bfloat16 from float32 weights). We update float32 master weights under bfloat16
autocast; so does TRL's ``autocast`` variant, while its ``bfloat16`` variant has no float32 weights.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from research.benchmarks.report import FOLDER, save

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

BATCH_SIZES = (8, 16, 32, 64)
VARIANTS: dict[str, list[str]] = {
    "TRL, bfloat16 weights": ["research.benchmarks.step_trl", "--weights", "bfloat16"],
    "TRL, float32 weights, autocast": ["research.benchmarks.step_trl", "--weights", "float32", "--autocast"],
    "ours, every group trained": ["research.benchmarks.step_ours", "--every-group"],
    "ours, groups without signal skipped": ["research.benchmarks.step_ours"],
}
SEARCHED = FOLDER / "step_vs_trl_search.json"
Steps = list[dict[str, float]]


def main() -> None:
    """Measure the variants in turns and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2, help="processes per variant")
    parser.add_argument("--steps", type=int, default=3, help="timed steps per process, after one that is not")
    parser.add_argument("--search", action="store_true", help="find TRL's fastest settings first")
    arguments = parser.parse_args()
    if find_spec("trl") is None:
        sys.exit("error: this benchmark compares with TRL, which is not installed: pip install -e '.[bench]'")
    if arguments.search:
        save("step_vs_trl_search", module="step_vs_trl", rows=searched(arguments.steps))
    settings = fastest(json.loads(SEARCHED.read_text())["rows"]) if SEARCHED.exists() else {}
    timed: dict[str, Steps] = {name: [] for name in VARIANTS}
    for turn in range(arguments.turns):
        for name, variant in VARIANTS.items():
            try:
                timed[name] += run([*variant, *settings.get(name, [])], seed=turn, num_steps=arguments.steps)
            except RuntimeError as error:
                sys.exit(f"error: {error}")
            print(name, timed[name][-arguments.steps :], flush=True)
    medians = {name: summary(steps) for name, steps in timed.items()}
    ratios = speedups(medians)
    for name, figures in (medians | ratios).items():
        print(name, figures)
    path = save("step_vs_trl", threads=int(os.environ["OMP_NUM_THREADS"]), medians=medians, ratios=ratios, steps=timed)
    print(f"wrote {path}")


def run(variant: Sequence[str], *, seed: int, num_steps: int) -> Steps:
    """One process of a variant; its steps without the first, which builds kernels and fills caches.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", *variant, "--seed", str(seed), "--steps", str(num_steps + 1)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])["steps"][1:]


def searched(num_steps: int) -> list[dict[str, Any]]:
    """Time TRL's variants with every batch size, and with continuous batching at the fastest of them."""
    rows: list[dict[str, Any]] = []
    for name in list(VARIANTS)[:-2]:
        sizes = [tried(name, size, num_steps, continuous_batching=False) for size in BATCH_SIZES]
        best = min(sizes, key=lambda row: row.get("step_s", math.inf))
        rows += [*sizes, tried(name, best["batch_size"], num_steps, continuous_batching=True)]
    return rows


def tried(name: str, batch_size: int, num_steps: int, *, continuous_batching: bool) -> dict[str, Any]:
    """Time one setting of a variant; the last line of its error where it does not run."""
    row = {"variant": name, "batch_size": batch_size, "continuous_batching": continuous_batching}
    try:
        row["step_s"] = summary(run([*VARIANTS[name], *options(row)], seed=0, num_steps=num_steps))["step_s"]
    except RuntimeError as error:
        row["error"] = str(error).strip().splitlines()[-1]
    print(row, flush=True)
    return row


def options(row: Mapping[str, Any]) -> list[str]:
    """Arguments of ``step_trl`` for a row of :func:`searched`."""
    return ["--batch-size", str(row["batch_size"]), *["--continuous-batching"] * row["continuous_batching"]]


def fastest(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the arguments of the fastest setting of each variant."""
    ran = sorted((row for row in rows if "step_s" in row), key=lambda row: -row["step_s"])
    return {row["variant"]: options(row) for row in ran}


def summary(steps: Steps) -> dict[str, float]:
    """Medians of every figure, and of the seconds per 1,000 generated tokens."""
    figures = {name: statistics.median(step.get(name, 0.0) for step in steps) for name in steps[0]}
    return figures | {"s_per_1k_tokens": statistics.median(1000 * step["step_s"] / step["tokens"] for step in steps)}


def speedups(medians: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """How many times faster ours is than TRL with bfloat16 weights, and than TRL with our numerics."""
    *trl, _, _ = VARIANTS
    return {
        f"{ours} / {theirs}": {
            "per_step": medians[theirs]["step_s"] / medians[ours]["step_s"],
            "per_token": medians[theirs]["s_per_1k_tokens"] / medians[ours]["s_per_1k_tokens"],
        }
        for theirs in trl
        for ours in list(VARIANTS)[2:]
    }


if __name__ == "__main__":
    main()
