"""The field's runs are configurations that would start, and its bookkeeping finds them again."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from research.studies.field import compare, levers, setting, tune
from research.studies.field.reach import final_level
from research.studies.field.results import Results
from research.studies.field.setting import METHODS, RUNS
from research.studies.field.sums import problems, worked
from research.studies.runs import StudyRun
from tests.unit.research.studies.composing import composed


class NoMistakes:
    """Draws above every probability."""

    def random(self):
        return 1.0


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_a_configuration_that_would_start(problem_files, method):
    run = setting.field_run("field/tuning", method, seed=0, lr=1e-4, prompts=8, max_tokens=1000, points=5)
    cfg = composed(run)
    assert cfg.callbacks.budget.max_generated_tokens == 1000
    assert cfg.data.prompts_per_step == 8 * METHODS[method].updates
    assert cfg.data.num_minibatches == METHODS[method].updates


@pytest.mark.parametrize("lever", levers.ALL_LEVERS, ids=lambda lever: f"{lever.base}-{lever.name}")
def test_every_lever_is_a_configuration_that_would_start_and_changes_the_method(problem_files, lever):
    runs = levers.lever_runs(lever.base, tune.Tuned(1e-4, 32, 0.3), num_seeds=1)
    plain, changed = composed(runs[""][0]), composed(runs[lever.name][0])
    assert changed.data.prompts_per_step == 32 * lever.prompts_ratio
    del plain.run_name, changed.run_name, plain.data.prompts_per_step, changed.data.prompts_per_step
    assert plain != changed


def test_problems_train_or_are_held_out_never_both(problem_files):
    rows = [json.loads(line) for line in setting.TRAIN.read_text().splitlines()]
    assert len({row["prompt"] for row in rows}) == setting.NUM_TRAIN
    assert not {row["prompt"] for row in rows} & problem_files
    assert len(problem_files) == setting.NUM_HELDOUT


def test_without_a_slip_the_last_number_is_the_answer():
    for expression, answer in problems(size=200, seed=3):
        assert re.findall(r"-?\d+", worked(expression, NoMistakes()))[-1] == answer
        assert eval(expression) == int(answer)


class Measured(StudyRun):
    def measured(self):
        costs = ("generated_tokens", "seconds")
        curve = [{**dict.fromkeys(costs, 10.0 * point), "avg_at_4": self.seed / 10} for point in range(4)]
        return {"overrides": list(self.overrides), "seed": self.seed, "curve": curve}


def test_results_are_found_again_and_other_settings_are_refused(tmp_path):
    file = tmp_path / "some" / "results.jsonl"
    run = Measured("study", "grpo", 0, ("a=1",), label="grpo_n4")
    Results(file).add(run)
    Results(file).add(Measured("study", "grpo", 1, ("a=1",), label="grpo_n4"))
    found = Results(file)
    assert found.has(run)
    assert found.row(run)["seed"] == 0
    assert not found.has(Measured("study", "grpo", 2, ("a=1",), label="grpo_n4"))
    with pytest.raises(ValueError, match=r"results.jsonl has grpo_n4-0 with other settings \(a=1\); remove that line"):
        found.has(Measured("study", "grpo", 0, ("a=2",), label="grpo_n4"))


def test_large_checkpoints_go_once_the_result_is_kept_and_not_before(tmp_path, monkeypatch):
    monkeypatch.setattr("research.studies.runs.ROOT", tmp_path)
    run = Measured("study", "grpo", 0)
    checkpoint = run.folder / "checkpoints" / "last"
    checkpoint.mkdir(parents=True)
    summary = run.folder / "summary.json"
    summary.write_text('{"status": "stopped"}')
    results = Results(tmp_path / "results.jsonl", discard_checkpoints=True)
    with pytest.raises(ValueError, match="grpo-0 has not finished; its checkpoints are needed to continue it"):
        results.add(run)
    assert checkpoint.exists()
    assert not results.has(run)
    summary.write_text('{"status": "finished"}')
    Results(tmp_path / "small.jsonl").add(run)
    assert checkpoint.exists()
    results.add(run)
    assert sorted(file.name for file in run.folder.iterdir()) == ["summary.json"]
    assert run.is_done()


def test_the_settings_that_end_highest_are_taken_and_gaps_are_named(tmp_path, monkeypatch):
    levels = {(3e-5, 8): 1, (3e-5, 32): 2, (1e-4, 8): 3, (1e-4, 32): 9, (3e-4, 8): 4, (3e-4, 32): 5}
    runs = {key: Measured("study", "grpo", level, label=str(key)) for key, level in levels.items()}
    monkeypatch.setattr(tune, "tuning_runs", lambda method, on_first: runs)
    results = Results(tmp_path / "results.jsonl")
    with pytest.raises(ValueError, match=r"grpo_n4 is not tuned yet: .*run python -m research.studies.field.tune"):
        tune.tuned("grpo_n4", results)
    for run in runs.values():
        results.add(run)
    assert tune.tuned("grpo_n4", results) == tune.Tuned(1e-4, 32, pytest.approx(0.9))
    assert Path(results.path).read_text().count("\n") == len(levels)


def test_of_settings_as_good_as_the_best_the_quickest_is_taken():
    def ends(level, seconds):
        return [{"seconds": seconds, "avg_at_4": level}] * 3

    curves = {(1e-4, 8): ends(0.40, 90.0), (1e-4, 16): ends(0.39, 50.0), (1e-4, 32): ends(0.38, 20.0)}
    assert tune.taken(curves, noise=0.015) == (1e-4, 16)
    assert tune.taken(curves, noise=0.0) == (1e-4, 8)


def test_the_noise_of_a_level_is_that_of_the_committed_runs():
    """What is left of 13 methods times 3 seeds when the means of methods and seeds are taken off."""
    found = compare.curves(compare.part_runs("first"), Results(RUNS))
    levels = np.array([[final_level([runs[seed]]) for seed in compare.FIRST_SEEDS] for runs in found.values()])
    rest = levels - levels.mean(0) - levels.mean(1, keepdims=True) + levels.mean()
    freedom = (levels.shape[0] - 1) * (levels.shape[1] - 1)
    assert pytest.approx(np.sqrt(2 * (rest**2).sum() / freedom), abs=0.0005) == tune.NOISE


def test_grpo_has_as_many_settings_to_choose_from_as_anyone():
    assert len(tune.GRIDS["grpo_n4"]) == max(map(len, tune.GRIDS.values()))


def test_effects_compare_each_change_with_the_method_as_it_is():
    def line(slope):
        costs = ("generated_tokens", "seconds")
        return [
            {**dict.fromkeys(costs, 10.0 * point), "trained_tokens": 4.0 * point, "avg_at_4": slope * point}
            for point in range(11)
        ]

    names = [lever.name for lever in levers.ALL_LEVERS if lever.base == "ada"]
    found = {"": {0: line(0.02), 1: line(0.02)}, names[0]: {0: line(0.05), 1: line(0.05)}}
    own, changed = levers.effects("ada", found)
    assert (own.text, own.gain.value, own.saving.value) == ("as it is", 0.0, 1.0)
    assert changed.trained == pytest.approx(0.4)
    assert changed.gain.value == pytest.approx((0.05 - 0.02) * 9)
    assert changed.saving.value == pytest.approx(0.05 / 0.02)
