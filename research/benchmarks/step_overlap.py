"""Seconds of a step when rollouts and updates overlap on two cores: ``python -m research.benchmarks.step_overlap``.

The default task trained in four ways, in turns, each in a process of its own: one after the other with two threads;
one after the other with one thread; with an engine of one thread in a process of its own beside a trainer of one
thread, overlapped with a lag of one step; and so without a lag, with the gradients of prompts that are complete
streamed. All with PPO's clip around the policy that sampled, as a lag needs it. The first step of each process builds
kernels and fills caches, and during the last nothing is sampled ahead: both are left out.

Overlap can win only where a second thread speeds either phase up by less than their sum allows: R1 and U1 seconds with
one thread against R2 and U2 with two, ``max(R1, U1) < R2 + U2``, on cores that both can be busy at once without being
slower for it. Writes ``docs/performance/step_overlap.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ada_lightning.run.machine import SPIN_COUNT
from research.benchmarks.report import save

LOSS = ("loss.anchor=behaviour", "loss.importance_cap=0")
OUTSIDE = ("rollout=vllm_process", "rollout.host.num_threads=1")
WAYS: dict[str, tuple[int, tuple[str, ...]]] = {
    "two threads, in turns": (2, ()),
    "overlapped, one thread each": (1, (*OUTSIDE, "rollout.max_staleness=1")),
    "streamed, one thread each": (1, (*OUTSIDE, "rollout.stream_gradients=true")),
    "one thread, in turns": (1, ()),
}
"""Threads of the trainer's process, and settings."""
FIGURES = {
    "step_s": "step_s",
    "rollout_s": "time/rollout_s",
    "latency_s": "rollout/latency_s",
    "update_s": "time/update_s",
    "sync_s": "time/sync_s",
    "streamed_ratio": "train/streamed_ratio",
    "tokens": "rollout/generated_tokens",
}
"""Names here and of a run. ``rollout_s`` is what the trainer waits for, ``latency_s`` what sampling beside it took."""


def main() -> None:
    """Measure the ways in turns, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2, help="processes for each way")
    parser.add_argument("--steps", type=int, default=3, help="timed steps of each process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*", help="more overrides of the configuration")
    arguments = parser.parse_args()
    if arguments.child:
        _train(arguments.steps, arguments.overrides)
        return
    timed: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for _ in range(arguments.turns):
        for name, (threads, settings) in WAYS.items():
            timed[name] += _in_child(threads, [*LOSS, *settings, *arguments.overrides], arguments.steps)
            print(name, timed[name][-arguments.steps :], flush=True)
    rows = [{"way": name, **summary(steps)} for name, steps in timed.items()]
    print(*rows, sep="\n")
    print(f"wrote {save('step_overlap', rows=rows, steps=timed)}")


def summary(steps: Sequence[dict[str, float]]) -> dict[str, float]:
    """Medians of every figure; that of seconds per 1,000 generated tokens too, as steps draw different numbers."""
    medians = {name: round(statistics.median(step[name] for step in steps), 2) for name in steps[0]}
    per_token = statistics.median(1000 * step["step_s"] / step["tokens"] for step in steps)
    return medians | {"s_per_1k_tokens": round(per_token, 3), "num_steps": len(steps)}


def _in_child(threads: int, overrides: Sequence[str], num_steps: int) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "research.benchmarks.step_overlap", "--child", "--steps", str(num_steps)]
    variables = {**os.environ, "OMP_NUM_THREADS": str(threads), "GOMP_SPINCOUNT": SPIN_COUNT, "COLUMNS": "100"}
    done = subprocess.run([*command, *overrides], stdout=subprocess.PIPE, text=True, env=variables)
    if done.returncode:
        sys.exit(f"error: {' '.join([*command[1:], *overrides])} failed")
    rows: list[dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def _train(num_steps: int, overrides: Sequence[str]) -> None:
    """Train in this process and print the figures of the timed steps."""
    from research.benchmarks.training import Job

    parent = os.dup(1)
    os.dup2(2, 1)  # what a run tells its user is not for the parent
    with tempfile.TemporaryDirectory() as folder:
        steps = Job(["+experiment=ada_seq_balance", f"num_steps={num_steps + 2}", *overrides], Path(folder)).fit()
    os.dup2(parent, 1)
    print(json.dumps([{name: row.get(key, 0.0) for name, key in FIGURES.items()} for row in steps[1:-1]]))


if __name__ == "__main__":
    main()
