"""The runs on the default model are configurations that would start, with updates of one size."""

import pytest

from studies import smollm2
from studies.field.methods import METHODS
from studies.field.results import Results
from studies.runs import StudyRun
from tests.unit.studies.composing import composed


@pytest.mark.parametrize("task", smollm2.TASKS)
@pytest.mark.parametrize("method", smollm2.PROMPTS)
def test_every_run_would_start_and_has_updates_of_one_size(task, method):
    run = smollm2.smollm2_run(task, method, seed=1)
    assert task in run.name
    cfg = composed(run)
    assert list(cfg.data.source.tasks) == [task]
    assert cfg.optimizer.lr == smollm2.LEARNING_RATE
    if METHODS[method].experiment in ("grpo", "ada"):
        assert cfg.sampler.group_size * cfg.data.prompts_per_step == smollm2.RESPONSES_PER_UPDATE


def test_only_runs_that_are_done_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(smollm2, "SMOLLM2", tmp_path / "smollm2.jsonl")
    costs = ("generated_tokens", "trained_tokens", "seconds", "updates")
    curve = [{**dict.fromkeys(costs, 10.0 * point), "avg_at_4": point / 10} for point in range(5)]
    monkeypatch.setattr(StudyRun, "measured", lambda run: {"overrides": list(run.overrides), "curve": curve})
    assert smollm2.smollm2_curves("products") == {}
    with pytest.raises(ValueError, match="no run of grpo_n4, grpo_n4_4_updates, grpo_n8, grpo_n16 is done"):
        smollm2.standings("products")
    for method in ("grpo_n4", "ada"):
        Results(smollm2.SMOLLM2).add(smollm2.smollm2_run("products", method, seed=0))
    assert {standing.method for standing in smollm2.standings("products")} == {"grpo_n4", "ada"}
    assert smollm2.smollm2_curves("chain_sum") == {}
