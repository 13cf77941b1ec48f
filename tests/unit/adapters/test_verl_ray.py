"""verl with a memory in Ray: its own TransferQueue and workers in processes of their own, and the brain in an actor.

Ray and the queue take about a minute to start.
"""

from __future__ import annotations

import contextlib
import time

import pytest

pytest.importorskip("verl")
import ray
import transfer_queue
from verl.experimental.agent_loop import agent_loop
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ

from ada_lightning.adapters import Core
from ada_lightning.adapters.verl import worker
from ada_lightning.adapters.verl.actor import ActorBrain
from ada_lightning.config.problems import ConfigError
from tests.tapes import world
from tests.unit.adapters import verl_world
from tests.unit.adapters.conformance import PROMPTS, play_core, truth
from tests.unit.adapters.test_verl_memory import trainer_of

MANAGER = "ada_lightning.adapters.verl.worker.AdaAgentLoopManager"
HISTORY = {"curriculum": "posterior", "sampler": "balance_posterior"}
"""Prompts chosen, and given up, by what earlier steps showed of them."""

pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture(scope="module", autouse=True)
def started():
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000)
    transfer_queue.init()
    yield
    transfer_queue.close()
    ray.shutdown()


class Process:
    """verl's worker in a process of its own, without servers; its sessions hang as it is told."""

    def __init__(self):
        agent_loop._agent_loop_registry["scripted"] = {"_target_": "tests.unit.adapters.verl_world.Scripted"}
        transfer_queue.init()

    def configure(self, config, asks):
        self.worker = verl_world.worker_of(config, worker.AdaAgentLoopWorker if asks else verl_world.Worker)

    def hang(self, places):
        verl_world.Scripted.hangs = frozenset(places)

    async def generate_sequences(self, batch):
        await self.worker.generate_sequences(batch)


@pytest.fixture(scope="module")
def processes(started):
    """They take long to start, so those that live serve the next test too."""
    return []


def started_trainer(processes, folder, rule, *, asks, **settings):
    """verl's trainer with two workers; ``asks``: they draw as the actor says."""
    words = {"actor_rollout_ref.rollout.agent.agent_loop_manager_class": MANAGER} if asks else {}
    trainer = trainer_of(folder, rule, manager=object(), timeout_s=60.0, **words, **settings)
    while len(processes) < 2:
        processes.append(ray.remote(num_cpus=0)(Process).remote())
    ray.get([process.configure.remote(trainer.config, asks) for process in processes])
    manager = object.__new__(worker.AdaAgentLoopManager if asks else AgentLoopManagerTQ)
    manager.agent_loop_workers = list(processes)
    trainer.agent_loop_manager = manager
    return trainer


def stop(trainer):
    """Let the actor go, and wait until its name is free."""
    if isinstance(brain := trainer.train_dataset._memory.brain, ActorBrain):
        ray.kill(brain._actor)
        deadline = time.monotonic() + 60
        with contextlib.suppress(ValueError):
            while True:
                ray.get_actor(brain.name)
                assert time.monotonic() < deadline, brain.name
                time.sleep(0.05)


def play(trainer, num_steps):
    return [verl_world.play(trainer, transfer_queue) for _ in range(num_steps)]


def weights_of(steps):
    return [pytest.approx(step.weights, rel=1e-6) for step in steps]


def test_numbers_known_beforehand_go_through_verls_own_queue(processes, tmp_path):
    trainer = started_trainer(processes, tmp_path, "ada", asks=False)
    try:
        assert [step.weights for step in play(trainer, 3)] == weights_of(truth("ada")[:3])
    finally:
        stop(trainer)


@pytest.mark.parametrize("settings", [{}, HISTORY])
def test_stopping_rules_ask_the_actor_and_may_use_history(processes, tmp_path, settings):
    trainer = started_trainer(processes, tmp_path, "ada_seq_balance", asks=True, **settings)
    wanted = play_core(Core("ada_seq_balance", PROMPTS, seed=world.RUN_SEED, **settings), "shuffled", num_steps=3)
    try:
        found = play(trainer, 3)
    finally:
        stop(trainer)
    assert [step.weights for step in found] == weights_of(wanted)
    assert [step.figures["ada/responses"] for step in found] == [sum(step.drawn) for step in wanted]


def test_a_worker_that_dies_between_drawing_and_telling_loses_nothing_that_was_stored(processes, tmp_path):
    trainer = started_trainer(processes, tmp_path, "ada_seq_balance", asks=True)
    trainer.replay_buffer.memory.timeout_s = 10.0
    first, second = trainer.agent_loop_manager.agent_loop_workers
    hanging = [(0, slot, 1) for slot in range(world.PROMPTS_PER_STEP)]
    try:
        ray.get([first.hang.remote(hanging), second.hang.remote([])])
        generate = trainer.agent_loop_manager.generate_sequences

        def and_die(batch):
            generate(batch)
            deadline = time.monotonic() + 120
            while len([key for key in transfer_queue.kv_list()["train"] if "_" in key]) < world.PROMPTS_PER_STEP:
                assert time.monotonic() < deadline, "no worker drew anything"
                time.sleep(0.05)
            ray.kill(first)
            processes.remove(first)

        trainer.agent_loop_manager.generate_sequences = and_die
        (step,) = play(trainer, 1)
        figures = step.figures
        graded = figures["ada/responses"] - figures["ada/ungraded"]
        assert figures["ada/ungraded/timeout"] > 0
        assert graded > 0
        assert len(step.weights) == figures["ada/rows"]
        # What the second worker drew is as if nothing had happened.
        (wanted,) = play_core(Core("ada_seq_balance", PROMPTS, seed=world.RUN_SEED), "in order", num_steps=1)
        last = f"{world.PROMPTS_PER_STEP - 1}/"
        assert {k: w for k, w in step.weights.items() if k.startswith(last)} == pytest.approx(
            {k: w for k, w in wanted.weights.items() if k.startswith(last)}, rel=1e-6
        )
        assert trainer.train_dataset._memory.brain.state_dict()["core"]["step"] == 1
    finally:
        stop(trainer)


def test_an_actor_that_is_killed_in_the_middle_of_a_step_ends_the_run_and_counts_nothing(processes, tmp_path):
    trainer = started_trainer(processes, tmp_path, "ada_seq_balance", asks=True)
    try:
        play(trainer, 1)
        trainer.global_steps = 1
        trainer._save_checkpoint()
        trainer.global_steps = 2
        trainer.prepare_step()
        ray.kill(trainer.train_dataset._memory.brain._actor)
        with pytest.raises(RuntimeError, match="'ada_brain', which holds what was learned, is gone"):
            trainer.replay_buffer.sample(global_steps=2, partition_id="train", batch_size=world.PROMPTS_PER_STEP)
    finally:
        stop(trainer)
    transfer_queue.kv_clear(keys=list(transfer_queue.kv_list()["train"]), partition_id="train")
    again = started_trainer(processes, tmp_path, "ada_seq_balance", asks=True)
    try:
        again._load_checkpoint()
        again.global_steps += 1
        (step,) = play(again, 1)
    finally:
        stop(again)
    wanted = play_core(Core("ada_seq_balance", PROMPTS, seed=world.RUN_SEED), "in order", num_steps=2)
    assert [step.weights] == weights_of(wanted[1:])


def test_two_trainers_do_not_share_an_actor(processes, tmp_path):
    trainer = started_trainer(processes, tmp_path, "ada_seq_balance", asks=True)
    try:
        with pytest.raises(ConfigError, match="another trainer of this Ray namespace has the actor 'ada_brain'"):
            started_trainer(processes, tmp_path, "ada_seq_balance", asks=True)
        other = started_trainer(processes, tmp_path, "ada_seq_balance", asks=True, actor="mine")
        stop(other)
    finally:
        stop(trainer)
