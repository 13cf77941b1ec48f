"""What the page tells of a run's troubles."""

from __future__ import annotations

from pathlib import Path

import pytest

from ada_lightning.analysis.report.headline import headline
from ada_lightning.analysis.report.method import Method
from ada_lightning.analysis.report.notes import notes
from ada_lightning.analysis.report.run import Run
from ada_lightning.analysis.report.spread import Mark


def run_of(rows, seed=0):
    return Run(Path("run"), {"run_name": "run", "seed": seed}, rows, {"status": "finished"})


def texts(rows):
    return [note.text for note in notes([Method("m", (run_of(rows),), {})])]


def test_counts_of_a_step_add_up_and_running_counts_do_not():
    steps = [{"step": step, "rollout/generated_tokens": 10.0} for step in range(6)]
    for row, restarts, skipped, failures in zip(
        steps, (0, 1, 1, 0, 2, 2), (0, 0, 1, 1, 2, 2), (3, 0, 0, 2, 0, 0), strict=True
    ):
        row |= {"rollout/engine_restarts": restarts, "train/skipped_updates": skipped}
        row["rollout/grader_failures"] = failures
    assert texts(steps) == [
        "responses whose grader failed: 5 (rollout/grader_failures)",
        "engine restarts: 3 (rollout/engine_restarts)",  # one, and two after a resume, which counts anew
        "updates skipped: 2 (train/skipped_updates)",
    ]


@pytest.mark.parametrize(("seeds", "mark"), [((0, 1), Mark.BEST), ((0, 0), Mark.AHEAD)])
def test_the_same_seed_twice_is_no_second_seed(seeds, mark):
    def method(name, after):
        rows = [{"step": 0, "eval/avg_at_4": 0.1, "rollout/generated_tokens": 1.0}, {"step": 1, "eval/avg_at_4": after}]
        return Method(name, tuple(run_of(rows, seed) for seed in seeds), {})

    columns = {column.key: column for column in headline([method("a", 0.3), method("b", 0.2)]).columns}
    assert columns["heldout_after"].marks == [mark, Mark.NONE]
