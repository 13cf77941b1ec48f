"""verl with a memory: its own loader, worker, replay buffer and advantages give the steps of the project's own loop."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("verl")

from ada_lightning.adapters import Core  # noqa: E402
from tests.tapes import world  # noqa: E402
from tests.unit.adapters import verl_world  # noqa: E402
from tests.unit.adapters.conformance import (  # noqa: E402
    COMBINATIONS,
    PROMPTS,
    WITH_OBJECTIVE,
    assert_same,
    play_core,
    truth,
)

ROOT = Path(__file__).resolve().parents[3]
FIXED = ("grpo", "ada", "ada_est_ema")
"""Of the suite's rules, those whose numbers are known when a step begins."""
WORDS = [
    "trainer.v1.sampler.custom_sampler.path=pkg://ada_lightning.adapters.verl.buffer",
    "trainer.v1.sampler.custom_sampler.name=AdaReplayBuffer",
    "data.custom_cls.path=pkg://ada_lightning.adapters.verl.memory",
    "data.custom_cls.name=AdaDataset",
    "data.dataloader_num_workers=0",
    "algorithm.adv_estimator=ada",
    "actor_rollout_ref.actor.loss_agg_mode=token-sum",
]


@pytest.fixture
def queue(monkeypatch):
    return verl_world.use(monkeypatch, verl_world.Queue())


def trainer_of(folder, rule, objective="log", manager=None, **settings):
    chosen = {"method": rule} | ({"objective": objective} if rule in WITH_OBJECTIVE else {}) | settings
    core = Core(rule, PROMPTS)
    changes = {f"actor_rollout_ref.rollout.custom.ada.{key}": value for key, value in chosen.items()}
    config = verl_world.config_of(folder, WORDS, **{"actor_rollout_ref.rollout.n": core.max_kept, **changes})
    return verl_world.trainer_of(config, manager)


def played(trainer, queue, num_steps=world.NUM_STEPS):
    return [verl_world.play(trainer, queue) for _ in range(num_steps)]


@pytest.mark.parametrize(("rule", "objective"), [pair for pair in COMBINATIONS if pair[0] in FIXED])
def test_rows_and_weights_are_those_of_the_projects_own_loop(queue, tmp_path, rule, objective):
    found = played(trainer_of(tmp_path, rule, objective), queue)
    for step, wanted in zip(found, truth(rule, objective), strict=True):
        step.prompts, step.drawn = wanted.prompts, wanted.drawn
        assert step.figures["ada/responses"] == sum(wanted.drawn)
    assert_same(found, truth(rule, objective))
