"""Runs on the default model would start, with the settings that were found for them."""

import pytest

from research.studies.field.setting import METHODS
from research.studies.smollm2 import compare, tune
from research.studies.smollm2.tune import CONTESTANTS, NUM_TRAIN, TASKS, smollm2_run
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


def test_everyone_is_tuned_with_updates_of_as_many_responses():
    assert set(CONTESTANTS) <= {*tune.GRIDS, *tune.SETTINGS_OF}
    for method in ("grpo_n4", "grpo_n4_4_updates", "grpo_n8", "ada"):
        sizes = {
            cfg.data.prompts_per_step // cfg.data.num_minibatches * cfg.sampler.group_size
            for cfg in map(composed, tune.tuning_runs(method).values())
        }
        assert sizes == ({32} if method.endswith("updates") else {32, 128})


def test_a_mean_over_fewer_seeds_is_not_drawn_beside_the_others():
    found = {"grpo_n4": {0: [], 1: []}, "ada": {0: []}}
    assert list(compare.with_every_seed(found)) == ["grpo_n4"]
    assert compare.with_every_seed({}) == {}
