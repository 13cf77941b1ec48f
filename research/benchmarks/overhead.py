"""Where the seconds of a training step go: ``python -m research.benchmarks.overhead``.

Runs ``train.py +experiment=ada_seq_balance`` as it is (evaluation and checkpoints, which fall on every tenth step, left
out) and counts who is at work in every stretch of a step, exclusively. Everything that is not the engine generating nor
forward, backward and optimiser is overhead. Writes ``docs/performance/overhead.json``.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

from research.benchmarks.report import save
from research.benchmarks.training import Job, Recorder

WORK = ("generation", "forward", "backward", "optimizer")
"""What the seconds are for. Everything else is overhead."""


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6, help="training steps; the first is not counted")
    parser.add_argument("overrides", nargs="*", help="of the configuration")
    arguments = parser.parse_args()
    recorder = Recorder()
    instrument(recorder)
    with tempfile.TemporaryDirectory(prefix="ada_lightning-") as folder:
        job = Job(["+experiment=ada_seq_balance", f"num_steps={arguments.steps}", *arguments.overrides], Path(folder))
        ends = mark_steps(job, recorder)
        job.fit()
    steps = [recorder.seconds(start, end) for start, end in pairwise(ends)]
    shares = {
        part: statistics.median(step[part] / step.total() for step in steps)
        for part in sorted({part for step in steps for part in step})
    }
    overhead = statistics.median(
        sum(seconds for part, seconds in step.items() if part not in WORK) / step.total() for step in steps
    )
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    figures = {"shares": shares, "overhead": overhead, "peak_gib": peak_gib}  # of the process, engine included
    print(figures)
    save("overhead", steps=[dict(step) for step in steps], **figures)


def instrument(recorder: Recorder) -> None:
    """Wrap the functions between which a step divides its time."""
    from torch import nn

    import ada_lightning.data.datamodule as datamodule
    from ada_lightning.callbacks.adaptive_sampling import AdaptiveSampling
    from ada_lightning.rewards.pool import RewardPool
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine
    from ada_lightning.rollout.loop import Loop
    from ada_lightning.rollout.service import RolloutService
    from ada_lightning.training.policy import PolicyModule

    for owner, name, part in (
        (VllmEngine, "poll", "generation"),
        (VllmEngine, "submit", "submit and abort"),
        (VllmEngine, "abort", "submit and abort"),
        (VllmEngine, "load_weights", "weight sync"),
        (RolloutService, "_decode", "decoding text"),
        (RewardPool, "submit", "handing to graders"),
        (RewardPool, "poll", "handing to graders"),
        (RewardPool, "wait", "waiting for graders"),
        (RolloutService, "_drive", "collector and sampler"),
        (Loop, "rollout", "estimator and figures"),
        (datamodule, "pack_for_replicas", "packing"),
        (PolicyModule, "microbatch_loss", "forward"),
        (PolicyModule, "manual_backward", "backward"),
        (PolicyModule, "_update", "optimizer"),
        (nn.utils, "clip_grad_norm_", "optimizer"),
        (PolicyModule, "training_step", "training step, the rest"),
        (AdaptiveSampling, "on_train_batch_end", "logging"),
    ):
        recorder.wrap(owner, name, part)


def mark_steps(job: Job, recorder: Recorder) -> list[float]:
    """Return a list that fills with the times at which updates end."""
    import time

    from lightning.pytorch import Callback

    ends: list[float] = []

    class Marks(Callback):
        def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
            ends.append(time.perf_counter())

    job.run.callbacks.append(Marks())
    return ends


if __name__ == "__main__":
    main()
