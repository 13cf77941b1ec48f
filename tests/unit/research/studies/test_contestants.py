"""Runs of the studies are configurations that would start, on problems that are not held out."""

import json
import re

import numpy as np
import pytest

from research.studies.curves import final_level
from research.studies.field import compare, fresh, newer, setting, tune
from research.studies.field.sums import problems, worked
from research.studies.methods import METHODS, Settings
from research.studies.runs import StudyRun
from research.studies.smollm2.compare import METHODS as SMOLLM2_METHODS
from research.studies.smollm2.compare import TASKS
from research.studies.smollm2.tune import NUM_TRAIN, TUNING, smollm2_run


def prompts(file):
    return [json.loads(line)["prompt"] for line in file.read_text().splitlines()]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_a_configuration_that_would_start(problem_files, composed, method):
    run = setting.field_run("tuning", method, Settings(1e-4, 8), seed=0, max_tokens=1000, points=5)
    cfg = composed(run)
    assert cfg.callbacks.budget.max_generated_tokens == 1000
    assert (cfg.optimizer.lr, cfg.data.prompts_per_step) == (1e-4, 8 * METHODS[method].updates)
    assert cfg.data.num_minibatches == METHODS[method].updates


@pytest.mark.thinned(3)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", SMOLLM2_METHODS)
def test_every_run_of_the_default_model_would_start(composed, task, method):
    cfg = composed(smollm2_run("smollm2", task, method, Settings(2e-5, 16), seed=1, points=5))
    assert list(cfg.data.source.tasks) == [task]
    assert (cfg.optimizer.lr, cfg.data.prompts_per_step // cfg.data.num_minibatches) == (2e-5, 16)
    assert cfg.data.num_minibatches == METHODS[method].updates
    assert cfg.data.source.num_train == NUM_TRAIN


@pytest.mark.long
def test_the_default_model_is_tuned_with_updates_of_as_many_responses(composed):
    for method, grid in TUNING.grids.items():
        sizes = {
            cfg.data.prompts_per_step // cfg.data.num_minibatches * cfg.sampler.group_size
            for cfg in (composed(TUNING.run(method, settings)) for settings in grid)
        }
        assert sizes == ({32} if method.endswith("updates") else {32, 128})


@pytest.mark.parametrize(
    ("experiment", "method"),
    [("ada_similar", METHODS["ada_similar"]), ("grpo_chosen", METHODS["grpo_chosen_4_updates"])],
)
def test_what_was_compared_is_the_experiment_of_that_name(composed, experiment, method):
    named = composed(StudyRun("x", experiment, 0))
    compared = composed(StudyRun("x", method.experiment, 0, method.settings))
    for part in ("estimator", "curriculum", "sampler", "selection", "advantage", "loss"):
        assert named[part] == compared[part]


def test_problems_train_or_are_held_out_never_both(problem_files):
    assert len(set(prompts(setting.TRAIN))) == setting.NUM_TRAIN
    assert len(problem_files) == setting.NUM_HELDOUT
    assert not problem_files.intersection(prompts(setting.TRAIN))


@pytest.mark.long
def test_problems_that_are_seen_once_are_enough_and_not_held_out(problem_files, composed, monkeypatch):
    """Curricula pass candidates over; what responses are long is known from the runs where problems come back."""
    fresh.prepare_fresh()
    own = set(prompts(fresh.PROBLEMS))
    assert len(own) == fresh.NUM_PROBLEMS
    assert not own & problem_files
    rows = [json.loads(line) for line in (setting.RESULTS / "runs.jsonl").read_text().splitlines()]
    shortest = min(row["generated_tokens"] / row["responses"] for row in rows if row["seed"] > 2)
    monkeypatch.setattr(type(fresh.TUNING), "tuned", lambda self, method: Settings(1e-4, 8))
    for index, (run,) in enumerate(fresh.fresh_runs(num_seeds=1).values()):
        cfg = composed(run, check=index == 0)  # reads all problems; what the others have of their own is checked above
        assert cfg.data.source.path == fresh.PROBLEMS.name
        per_prompt = cfg.sampler.get("num_screen") or cfg.sampler.group_size
        passed = fresh.MAX_TOKENS / shortest / per_prompt * cfg.curriculum.get("candidate_ratio", 1.0)
        assert passed < fresh.NUM_PROBLEMS


def test_without_a_slip_the_last_number_is_the_answer():
    class NoMistakes:
        def random(self):
            return 1.0

    for expression, answer in problems(size=200, seed=3):
        assert re.findall(r"-?\d+", worked(expression, NoMistakes()))[-1] == answer
        assert eval(expression) == int(answer)


def test_the_noise_of_a_level_is_that_of_the_committed_runs():
    """What is left of 13 methods times 3 seeds when the means of methods and seeds are taken off."""
    found = compare.CONTESTS[0].curves()
    levels = np.array([[final_level([runs[seed]]) for seed in setting.FIRST_SEEDS] for runs in found.values()])
    assert levels.shape == (13, 3)
    rest = levels - levels.mean(0) - levels.mean(1, keepdims=True) + levels.mean()
    freedom = (levels.shape[0] - 1) * (levels.shape[1] - 1)
    assert pytest.approx(np.sqrt(2 * (rest**2).sum() / freedom), abs=0.0005) == tune.TUNING.noise


def test_grpo_has_as_many_settings_to_choose_from_as_anyone():
    assert len(tune.GRIDS["grpo_n4"]) == max(map(len, tune.GRIDS.values()))


def test_the_methods_since_have_one_grid_and_a_falling_rate(problem_files, composed):
    grids = {
        tuple((lr, prompts * (1 if method in newer.OF_ONE else 4)) for lr, prompts in grid)
        for method, grid in newer.TUNING.grids.items()
    }
    assert len(grids) == 1
    assert newer.TUNING.grids.keys() == {*newer.OF_FOUR, *newer.OF_ONE}
    cfg = composed(newer.tuning_run(newer.GRPO, newer.TUNING.grids[newer.GRPO][0]))
    assert cfg.policy.schedule._target_.endswith("LinearSchedule")
    assert newer.TUNING_SEED not in setting.second_seeds()
