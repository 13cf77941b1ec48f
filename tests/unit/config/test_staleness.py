"""What does not go with a lag is refused before a model loads, all at once."""

from __future__ import annotations

import shlex

import pytest

from ada_lightning.config.check import override_errors
from ada_lightning.parallel import hardware
from ada_lightning.programs.start import CONFIG_DIR
from research.studies.field.staleness import LAGS, tuning_run
from research.studies.methods import Settings
from tests.unit.config.composing import composed, problems, said
from tests.unit.documented import commands

LAG = "rollout.max_staleness=1"
BEHAVIOUR = f"{LAG} loss.anchor=behaviour loss.importance_cap=0"
BOUNDED = f"{LAG} loss/importance=sequence_rejection loss.importance.floor=0.5"
UNBOUNDED = "nothing bounds how far the policy moves from the one that sampled"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(hardware, "count_gpus", lambda: 0)


@pytest.mark.parametrize(
    "command",
    [
        BEHAVIOUR,
        BOUNDED,
        f"{LAG} loss=divergence_tv",
        f"{LAG} loss=reinforce loss/importance=geometric_rejection",
        f"{LAG} data.num_minibatches=2",  # the decoupled objective
        f"{BEHAVIOUR} rollout=vllm_process",  # overlapped
        f"{BEHAVIOUR} rollout=ray",
    ],
)
def test_a_lag_with_something_that_bounds_the_drift_passes(command):
    assert said(command) == []


@pytest.mark.parametrize(
    ("command", "messages"),
    [
        (LAG, [UNBOUNDED]),  # of today's defaults: one update a rollout, so that every ratio is 1
        (f"{LAG} loss=reinforce", [UNBOUNDED]),
        (f"{LAG} loss=flowrl advantage=grpo selection=all sampler=uniform", [UNBOUNDED]),
        (f"{LAG} loss/importance=sequence_truncation", [UNBOUNDED]),
        (f"{LAG} data.num_minibatches=2 loss.importance_cap=0", [UNBOUNDED]),
        (f"{BEHAVIOUR} refill=dynamic rollout.seed_requests=false",
         ["use refill=none", "use rollout.seed_requests=true"]),
        (f"{BEHAVIOUR} rollout=vllm_gpu_process trainer.accelerator=cuda", ["use rollout/weight_transfer=reload"]),
        (f"{BEHAVIOUR} +experiment=gvm_grpo", ["reads the policy between its stages"]),
        (f"{BEHAVIOUR} trainer.devices=2", ["trainer.devices x trainer.num_nodes = 2"]),
        (f"{BEHAVIOUR} +rollout.engine.sleep_level=1", ["use rollout.engine.sleep_level=0"]),
    ],
)  # fmt: skip
def test_what_does_not_go_with_a_lag_is_said_with_a_way_out(command, messages):
    found = [message for message in said(command) if "rollout.max_staleness = 1" in message]
    assert len(found) == len(messages), found
    assert all(any(message in each for each in found) for message in messages), found


def test_settings_that_cannot_be_are_refused():
    assert any("max_staleness must be at least 0; got -1" in each for each in problems("rollout.max_staleness=-1"))
    assert any("proximal or behaviour; got 'old'" in each for each in problems("loss.anchor=old"))
    assert any("loss.importance_cap = 2 would correct nothing" in each for each in problems("loss.anchor=behaviour"))


def test_without_a_lag_nothing_is_asked():
    assert composed().rollout.max_staleness == 0
    assert said("refill=dynamic selection=all advantage=official sampler=uniform") == []


def test_what_the_page_and_the_study_would_run_passes():
    page = [words for words in commands("docs/staleness.md") if any("max_staleness" in word for word in words)]
    assert len(page) == 4
    runs = [tuning_run(f"lag_{lag}", Settings(1e-4, 4)) for lag in LAGS]
    assert len({run.name for run in runs}) == len(LAGS)
    for words in (*page, *([f"+experiment={run.experiment}", *run.overrides] for run in runs)):
        assert override_errors(words, CONFIG_DIR, "train") == []
        assert said(shlex.join(words)) == []
