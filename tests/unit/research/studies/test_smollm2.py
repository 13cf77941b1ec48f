"""Runs on the default model would start, with the settings that were found for them."""

import pytest

from research.studies.field.methods import METHODS
from research.studies.field.results import Results
from research.studies.field.tune import NotTunedError
from research.studies.runs import StudyRun
from research.studies.smollm2 import compare, tune
from research.studies.smollm2.setting import CONTESTANTS, NUM_TRAIN, TASKS, smollm2_run
from tests.unit.research.studies.composing import composed


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("method", CONTESTANTS)
def test_every_run_would_start(task, method):
    run = smollm2_run("smollm2", task, method, seed=1, lr=2e-5, prompts=16, max_tokens=1000, points=5)
    cfg = composed(run)
    assert list(cfg.data.source.tasks) == [task]
    assert (cfg.optimizer.lr, cfg.data.prompts_per_step // cfg.data.num_minibatches) == (2e-5, 16)
    assert cfg.data.num_minibatches == METHODS[method].updates
    assert cfg.data.source.num_train == NUM_TRAIN
    assert cfg.callbacks.budget.max_generated_tokens == 1000


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Files of results, and runs that end the higher the more prompts an update has."""
    monkeypatch.setattr(compare, "SMOLLM2", tmp_path / "smollm2.jsonl")
    monkeypatch.setattr(compare, "SMOLLM2_TUNING", tmp_path / "tuning.jsonl")
    costs = ("generated_tokens", "trained_tokens", "seconds", "updates")

    def measured(run):
        prompts = composed(run).data.prompts_per_step
        curve = [{**dict.fromkeys(costs, 10.0 * point), "avg_at_4": point * prompts / 1000} for point in range(5)]
        return {"overrides": list(run.overrides), "curve": curve}

    monkeypatch.setattr(StudyRun, "measured", measured)


def tune_one(method):
    results = Results(compare.SMOLLM2_TUNING)
    for run in tune.tuning_runs(method).values():
        results.add(run)


def test_the_comparison_has_the_settings_that_did_best_in_tuning(places):
    with pytest.raises(NotTunedError, match=r"ada is not tuned yet: .*run python -m research.studies.smollm2.tune"):
        tune.tuned("ada", Results(compare.SMOLLM2_TUNING))
    tune_one("ada")
    sizes = {}
    for method in ("ada", "ada_similar_4_updates"):
        (run,) = compare.comparison_runs("products", method, num_seeds=1)
        cfg = composed(run)
        sizes[method] = cfg.data.prompts_per_step, cfg.data.num_minibatches
    assert sizes == {"ada": (32, 1), "ada_similar_4_updates": (128, 4)}


@pytest.mark.parametrize(("method", "source"), tune.SETTINGS_OF.items())
def test_what_has_no_tuning_of_its_own_takes_the_settings_of_another(places, method, source):
    tune_one(source)
    assert tune.tuned(method, Results(compare.SMOLLM2_TUNING)) == tune.tuned(source, Results(compare.SMOLLM2_TUNING))


def test_everyone_is_tuned_with_updates_of_as_many_responses():
    assert set(CONTESTANTS) <= {*tune.GRIDS, *tune.SETTINGS_OF}
    for method in ("grpo_n4", "grpo_n4_4_updates", "grpo_n8", "ada"):
        sizes = {
            cfg.data.prompts_per_step // cfg.data.num_minibatches * cfg.sampler.group_size
            for cfg in map(composed, tune.tuning_runs(method).values())
        }
        assert sizes == ({32} if method.endswith("updates") else {32, 128})


def test_only_runs_that_are_done_are_reported(places):
    for method in ("ada", "grpo_n4"):
        tune_one(method)
    assert compare.smollm2_curves("products") == {}
    with pytest.raises(ValueError, match="no run of grpo_n4, grpo_n4_4_updates, grpo_n8, grpo_n16 is done"):
        compare.standings("products")
    for method in ("grpo_n4", "ada_similar_4_updates"):
        Results(compare.SMOLLM2).add(compare.comparison_runs("products", method, num_seeds=1)[0])
    assert {standing.method for standing in compare.standings("products")} == {"grpo_n4", "ada_similar_4_updates"}
    assert compare.smollm2_curves("chain_sum") == {}


def test_a_mean_over_fewer_seeds_is_not_drawn_beside_the_others():
    found = {"grpo_n4": {0: [], 1: []}, "ada": {0: []}}
    assert list(compare.with_every_seed(found)) == ["grpo_n4"]
    assert compare.with_every_seed({}) == {}
