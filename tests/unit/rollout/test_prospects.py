from __future__ import annotations

from ada_lightning.rollout.prompt_run import PromptRun
from ada_lightning.rollout.prospects import Prospects
from tests.builders import make_pool


def make_runs(number):
    return [PromptRun(make_pool([], slot=slot)) for slot in range(number)]


def test_the_best_run_is_the_one_with_the_highest_latest_chance():
    prospects = Prospects()
    runs = make_runs(3)
    for run, chance in zip(runs, (0.2, 0.9, 0.5), strict=True):
        prospects.mark_changed(run)
        prospects.note(run, chance)
    assert prospects.best() == (runs[1], 0.9)
    prospects.note(runs[1], 0.1)
    assert prospects.best() == (runs[2], 0.5)
    prospects.note(runs[2], 0.0)
    prospects.note(runs[0], 0.0)
    assert prospects.best() == (runs[1], 0.1)
    prospects.note(runs[1], 0.0)
    assert prospects.best() == (None, 0.0)


def test_among_equals_the_first_of_the_step_is_best():
    prospects = Prospects()
    for run in reversed(make_runs(3)):
        prospects.mark_changed(run)
        prospects.note(run, 0.5)
    run, _ = prospects.best()
    assert run.pool.slot == 0


def test_changes_are_handed_out_once():
    prospects = Prospects()
    runs = make_runs(2)
    for run in (runs[1], runs[0], runs[1]):
        prospects.mark_changed(run)
    assert prospects.take_changed() == runs
    assert prospects.take_changed() == []
