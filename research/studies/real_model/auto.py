"""Does ``experiment=auto`` pay with a real model? ``python -m research.studies.real_model.auto``; ``--gpu`` on a GPU.

The setting is that of the second stage (:mod:`research.studies.real_model.setting`), but every evaluation has four
responses of each of 512 prompts. ``auto`` runs beside ``grpo_n4`` on prompts that come once, and on so few that GRPO
goes through them four times. The dropping of prompts of pass rate 0 and 1 has five pairs of each, ``rarer_class`` five
of the first. The protocol is docs/studies/auto_protocol.md. ``python -m research.studies.real_model.warm_up`` comes
before.

A study that was killed goes on where it was. Writes ``docs/studies/auto/real_model.jsonl``, on a GPU
``real_model_gpu.jsonl``: pairs of one machine go together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from research.benchmarks.report import DOCS
from research.studies.curves import TOKENS, Runs, time_scale
from research.studies.measured import measure, measured, spent
from research.studies.pairs import AUTO, GRPO, Arm, PairStudy, Row, Task
from research.studies.real_model.compare import verdict
from research.studies.real_model.setting import GPU, LONG, START, Stage, arm_run, task_settings
from research.studies.real_model.tune import tuned
from research.studies.runs import ROOT, StudyRun

RESULTS = DOCS / "studies" / "auto"
MEASURED, MEASUREMENTS = RESULTS / "real_model_measured.json", ROOT / "runs" / "real_model" / "measured"
"""The notes of measurements, and their folders."""
SEEDS = range(10, 20)
"""Which the second stage has not used."""
FREE, COUNTED, RARER_CLASS = "dropped once (free)", "dropped once (counted)", "rarer_class"
FEWER = 5
"""Pairs of the dropping and of ``rarer_class``."""
PROMPTS = {"once": LONG.num_train, "four_epochs": 336}
"""Of a run; GRPO's runs of the second stage sampled 1,248 to 1,376 groups, so about four times as many as the fewer."""
COST_RATIO = {False: 3, True: 1}
"""Of a trained token in generated ones, on a CPU and on a GPU (docs/when_to_use.md)."""


def stage_of(name: str, *, on_gpu: bool) -> Stage:
    """Return the second stage with a task's number of prompts and four held-out responses."""
    return replace(
        GPU if on_gpu else LONG,
        name=f"auto_gpu_{name}" if on_gpu else f"auto_{name}",
        num_train=PROMPTS[name],
        tuned=(),
        heldout_samples=4,
    )


def run_of(stage: Stage, arm: str, seed: int, *, more: tuple[str, ...] = (), label: str = "") -> StudyRun:
    """Return a run, at GRPO's learning rate of the second stage."""
    return arm_run(stage, arm, tuned(stage, arm), seed=seed, more=more, prefix=f"{label or stage.name}-")


def measurement(stage: Stage, seed: int) -> Path:
    """Return the folder of the measurement that a seed uses: one for all where no prompt comes back."""
    return MEASUREMENTS / (f"{stage.name}-{seed}" if comes_back(stage) else stage.name)


def comes_back(stage: Stage) -> bool:
    """Whether a run sees a prompt more than once."""
    return stage.num_train == PROMPTS["four_epochs"]


def dropped_run(stage: Stage, seed: int) -> StudyRun:
    """Return GRPO's run on the prompts that a measurement kept."""
    only = f"data.only={measurement(stage, seed).relative_to(ROOT)}"
    return run_of(stage, "grpo_n4", seed, more=(only,), label=f"{stage.name}-dropped")


def measure_for(stage: Stage, seed: int) -> None:
    """Draw eight responses of each prompt with the start, unless it is done."""
    settings, own_seed = (*task_settings(stage.num_train), *stage.machine), seed if comes_back(stage) else 0
    measure(measurement(stage, seed), settings, seed=own_seed, file=MEASURED)


def spent_for(stage: Stage, seed: int, row: Row) -> float:
    """Return what the measurement cost; of prompts that come once, the part that belongs to those that were trained."""
    return spent(measured(MEASURED)[measurement(stage, seed).name], row, is_part=not comes_back(stage))


def arms(name: str, *, on_gpu: bool) -> dict[str, Arm]:
    """Return the arms of a task."""
    stage = stage_of(name, on_gpu=on_gpu)
    cost_ratio = (f"curriculum.cost_ratio={COST_RATIO[on_gpu]}",)
    run, before = partial(dropped_run, stage), partial(measure_for, stage)
    found = {
        AUTO: Arm(partial(run_of, stage, "auto", more=cost_ratio)),
        GRPO: Arm(partial(run_of, stage, "grpo_n4")),
        FREE: Arm(run, before, pairs=FEWER),
        COUNTED: Arm(run, before, partial(spent_for, stage), pairs=FEWER),
    }
    return found | ({RARER_CLASS: Arm(partial(run_of, stage, RARER_CLASS), pairs=FEWER)} if name == "once" else {})


def judge(task: Task, curves: Mapping[str, Runs]) -> str:
    """Say whether ``auto`` pays on a task."""
    return verdict(time_scale(curves[GRPO], curves[AUTO], TOKENS))


def check_start() -> None:
    """Refuse to begin without the checkpoint that all runs start from."""
    if not START.exists():
        way_out = "run python -m research.studies.real_model.warm_up first"
        sys.exit(f"error: {START.relative_to(ROOT)} is missing; {way_out}")


def study(*, on_gpu: bool) -> PairStudy:
    """Return the study of one machine."""
    tasks = {
        "once": Task("SmolLM2, seen once", arms("once", on_gpu=on_gpu)),
        "four_epochs": Task("SmolLM2, four epochs", arms("four_epochs", on_gpu=on_gpu)),
    }
    file = RESULTS / ("real_model_gpu.jsonl" if on_gpu else "real_model.jsonl")
    return PairStudy(file, SEEDS, tasks, judge, check_start, discard_checkpoints=True)


STUDIES = {on_gpu: study(on_gpu=on_gpu) for on_gpu in (False, True)}
"""By whether a GPU runs it."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--gpu", action="store_true", help="the study of a GPU, not that of a CPU")
    STUDIES[parser.parse_known_args()[0].gpu].main(str(__doc__), parents=[parser])
