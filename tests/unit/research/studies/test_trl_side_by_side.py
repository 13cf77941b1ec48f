"""TRL alone and with adaptive rollouts: who is compared, by what settings are taken, and the smallest run of either."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from research.studies import trl_side_by_side
from research.studies.field import warm_start
from research.studies.field.sums import write
from research.studies.trl_side_by_side import GRID, METHODS, TUNING_SEEDS, TrlRun, trl_run
from research.studies.tuning import NotTunedError


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Keeps results of runs in a folder of their own: adds a row of a run that ended at a level."""
    monkeypatch.setattr(trl_side_by_side, "RESULTS", tmp_path)

    def add(file, run, level):
        curve = [{"generated_tokens": 100.0 * at, "seconds": 2.0 * at, "held_out": level} for at in range(7)]
        row = {"name": run.name, "overrides": list(run.overrides), "seed": run.seed, "curve": curve}
        with (tmp_path / file).open("a") as opened:
            opened.write(json.dumps(row) + "\n")

    return add


def test_settings_are_those_with_the_highest_mean_of_the_two_seeds(results):
    levels = {GRID[0]: (0.5, 0.1), GRID[1]: (0.3, 0.32), GRID[2]: (0.2, 0.2), GRID[3]: (0.0, 0.6)}
    for settings, of_seeds in levels.items():
        for seed, level in zip(TUNING_SEEDS, of_seeds, strict=True):
            results("tuning.jsonl", trl_run("tuning", "ada", settings, seed), level)
    assert trl_side_by_side.tuned("ada") == GRID[1]
    with pytest.raises(NotTunedError, match=r"^trl is not tuned yet: trl-lr"):
        trl_side_by_side.tuned("trl")


def test_everyone_has_the_same_grid_budget_and_seeds_of_their_own(results, monkeypatch):
    monkeypatch.setattr(trl_side_by_side, "tuned", lambda method: GRID[0])
    runs = trl_side_by_side.compared_runs(5)
    assert list(runs) == list(METHODS)
    assert len({tuple(run.overrides for run in of_method) for of_method in runs.values()}) == 1
    assert not {run.seed for of_method in runs.values() for run in of_method} & set(TUNING_SEEDS)


def test_the_table_has_the_gain_over_the_better_of_the_two_that_do_not_adapt(results, tmp_path, monkeypatch):
    monkeypatch.setattr(trl_side_by_side, "tuned", lambda method: GRID[0])
    contest = replace(trl_side_by_side.CONTEST, file=tmp_path / "runs.jsonl")
    for level, runs in zip((0.25, 0.5, 0.625, 0.75), trl_side_by_side.compared_runs(2).values(), strict=True):
        for run in runs:
            results("runs.jsonl", run, level)
    assert "| `ada` | 0.750 (0.750 to 0.750) | +0.250 " in contest.table()
    assert "| `trl` | 0.250 (0.250 to 0.250) | -0.250 " in contest.table()


def test_a_run_is_a_command_and_is_found_again(tmp_path, monkeypatch):
    monkeypatch.setattr("research.studies.runs.ROOT", tmp_path)
    monkeypatch.setattr(trl_side_by_side, "ROOT", tmp_path)
    started = []
    monkeypatch.setattr(
        trl_side_by_side.subprocess, "run", lambda command, **more: started.append((command, more["cwd"]))
    )
    run = trl_run("runs", "ada", GRID[0], seed=3)
    run.train({"OMP_NUM_THREADS": "1"})
    ((command, folder),) = started
    assert command[2] == "research.studies.trl_run"
    assert {"--method=ada", "--seed=3", "--folder=runs/trl/runs/ada-lr0.0001-p8-3", *run.overrides} <= set(command)
    assert folder == tmp_path
    (run.folder / "result.json").write_text(json.dumps({"curve": []}))
    run.train()
    assert len(started) == 1
    assert run.measured() == {"method": "ada", "seed": 3, "overrides": list(run.overrides), "curve": []}
    assert isinstance(run, TrlRun)


@pytest.mark.parametrize("method", ["trl", "grpo_chosen"])
def test_the_smallest_run_counts_every_response_once(method, tmp_path, monkeypatch):
    pytest.importorskip("trl")
    monkeypatch.setitem(os.environ, "TRL_EXPERIMENTAL_SILENCE", "1")
    from research.studies import trl_run as program

    for name in ("TRAIN", "HELDOUT"):
        monkeypatch.setattr(program, name, tmp_path / f"{name}.jsonl")
        write(tmp_path / f"{name}.jsonl", size=16, seed=len(name))
    monkeypatch.setattr(program, "MODEL", warm_start.COMMITTED)
    monkeypatch.setattr(program, "prepare", lambda: None)
    monkeypatch.setattr(program, "HELD_OUT_PROMPTS", 2)
    options = ["--prompts=2", "--max-tokens=300", "--points=2", "--seed=1"]
    program.main([f"--method={method}", f"--folder={tmp_path / 'run'}", *options])
    curve = json.loads((tmp_path / "run" / "result.json").read_text())["curve"]
    assert [row["held_out"] * 8 for row in curve] == [round(row["held_out"] * 8) for row in curve]
    assert curve[0] | {"held_out": 0} == dict.fromkeys(curve[0], 0.0)
    for row in curve:
        assert row["responses"] == row["updates"] * 2 * program.GROUP_SIZE
    assert curve[-2]["generated_tokens"] < 300 <= curve[-1]["generated_tokens"]
    assert curve[-1]["seconds"] > 0
