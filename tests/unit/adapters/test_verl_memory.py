"""verl with a memory: its own loader, worker, replay buffer and advantages give the steps of the project's own loop."""

from __future__ import annotations

import gc
from itertools import product

import pytest

pytest.importorskip("verl")

from ada_lightning.adapters import Core
from ada_lightning.adapters.verl import arguments, memory
from ada_lightning.adapters.verl.actor import AskedBrain
from ada_lightning.config.problems import ConfigError
from tests.tapes import world
from tests.unit.adapters import verl_world
from tests.unit.adapters.conformance import (
    COMBINATIONS,
    PROMPTS,
    WITH_OBJECTIVE,
    assert_same,
    outcome,
    play_core,
    truth,
)

FIXED = ("grpo", "ada", "ada_est_ema")
"""Of the suite's rules, those whose numbers are known when a step begins."""
WORDS = verl_world.words_of_the_page()["memory"]


@pytest.fixture
def queue(monkeypatch):
    return verl_world.use(monkeypatch, verl_world.Queue())


def trainer_of(folder, rule, objective="log", manager=None, **settings):
    """``settings`` with a dot are verl's own, the others the method's."""
    chosen = {"method": rule} | ({"objective": objective} if rule in WITH_OBJECTIVE or "advantage" in settings else {})
    chosen |= {key: value for key, value in settings.items() if "." not in key}
    core = Core(rule, PROMPTS, **{key: value for key, value in chosen.items() if key not in ("method", *arguments.OWN)})
    changes = {f"actor_rollout_ref.rollout.custom.ada.{key}": value for key, value in chosen.items()}
    changes |= {key: value for key, value in settings.items() if "." in key}
    config = verl_world.config_of(folder, WORDS, **{"actor_rollout_ref.rollout.n": core.max_kept, **changes})
    return verl_world.trainer_of(config, manager)


def played(trainer, queue, num_steps=world.NUM_STEPS):
    return [verl_world.play(trainer, queue) for _ in range(num_steps)]


@pytest.mark.parametrize(("rule", "objective"), [pair for pair in COMBINATIONS if pair[0] in FIXED])
def test_rows_and_weights_are_those_of_the_projects_own_loop(queue, tmp_path, rule, objective):
    found = played(trainer_of(tmp_path, rule, objective), queue)
    for step, wanted in zip(found, truth(rule, objective), strict=True):
        assert step.figures["ada/responses"] == sum(wanted.drawn)
    assert_same(found, truth(rule, objective))


@pytest.mark.parametrize(
    ("rule", "settings"), [("grpo_chosen", {}), ("ada_similar", {}), ("auto", {}), ("knapsack", {"n_max": 16})]
)
def test_methods_that_choose_by_words_or_divide_a_step_do_as_the_core_alone(queue, tmp_path, rule, settings):
    found = played(trainer_of(tmp_path, rule, **settings), queue)
    wanted = play_core(Core(rule, PROMPTS, seed=world.RUN_SEED, **settings), "shuffled")
    for step, other in zip(found, wanted, strict=True):
        assert step.figures["ada/responses"] == sum(other.drawn)
    assert_same(found, wanted)


def test_a_rule_that_decides_meanwhile_needs_workers_that_ask(queue, tmp_path):
    with pytest.raises(ConfigError, match="ada_seq_balance decides while responses come in how many more to draw"):
        trainer_of(tmp_path, "ada_seq_balance")


def expected(rule, *, missing=(), num_steps=1):
    """What the core alone does where these responses, (slot, index) of the last step, never come."""
    core = Core(rule, PROMPTS, seed=world.RUN_SEED)
    steps = play_core(core, "in order", num_steps=num_steps - 1)
    pools = core.choose(world.PROMPTS_PER_STEP)
    for pool in pools:
        for index in pool.launch(pool.want()):
            if (pool.slot, index) in missing:
                pool.add(index, failed="timeout", num_tokens=0)
            else:
                pool.add(index, payload=index, **outcome(pool.prompt_id, pool.seed(index), core.step, graded=False))
    denominator = core.denominator(world.MAX_NEW_TOKENS)
    weights = {f"{p.slot}/{row.payload}": row.advantage / denominator for p in pools for row in p.kept()}
    core.tell(pools)
    return [step.weights for step in steps] + [weights], core.state_dict()


def test_a_reward_that_never_comes_is_ungraded_and_the_others_of_its_prompt_count(queue, tmp_path, monkeypatch):
    """So is what a worker drew that died before it could tell."""
    trainer = trainer_of(tmp_path, "ada", timeout_s=0.3)
    (before,) = played(trainer, queue, 1)
    trainer.agent_loop_manager.limit_s = 5.0
    monkeypatch.setattr(verl_world.Scripted, "hangs", frozenset({(1, 2, 1), (1, 4, 0)}))
    (step,) = played(trainer, queue, 1)
    weights, state = expected("ada", missing={(2, 1), (4, 0)}, num_steps=2)
    assert before.weights == pytest.approx(weights[0], rel=1e-6)
    assert step.weights == pytest.approx(weights[1], rel=1e-6)
    assert step.figures["ada/ungraded/timeout"] >= 2
    assert trainer.train_dataset._memory.brain.state_dict()["core"] == state


def test_complete_prompts_are_told_while_others_are_drawn(queue, tmp_path, monkeypatch):
    trainer = trainer_of(tmp_path, "ada", timeout_s=0.3)
    trainer.agent_loop_manager.limit_s = 5.0
    monkeypatch.setattr(verl_world.Scripted, "hangs", frozenset({(0, 2, 1)}))
    brain, buffer, waiting = trainer.train_dataset._memory.brain, trainer.replay_buffer, []
    poll = buffer._wait_for_next_poll

    def and_look(*given):
        waiting.append(brain.waiting())
        return poll(*given)

    monkeypatch.setattr(buffer, "_wait_for_next_poll", and_look)
    played(trainer, queue, 1)
    assert {place: len(indices) for place, indices in waiting[0].items()} == {(0, 1): 1, (0, 2): 4}  # one of 1 failed
    assert gc.isenabled()


def test_what_comes_late_is_neither_counted_nor_left_in_the_queue(queue, tmp_path):
    trainer = trainer_of(tmp_path, "ada")
    kept = {}
    sample = trainer.replay_buffer.sample

    def with_late_rows(**given):
        """A session of the step before stores its row now, and its prompt's status."""
        if kept:
            queue.kv_batch_put(kept["keys"], "train", tags=[{"status": "success", "seq_len": 9}])
            queue.rows["train"][kept["keys"][0]] = kept["row"]
            queue.kv_batch_put(["gone"], "train", tags=[{"status": "finished"}])
        else:
            key = next(key for key, row in queue.rows["train"].items() if "rm_scores" in row)
            kept.update(keys=["gone_1_0"], row=dict(queue.rows["train"][key]))
        return sample(**given)

    trainer.replay_buffer.sample = with_late_rows
    steps = played(trainer, queue, 3)  # play() finds nothing left in the queue
    wanted = play_core(Core("ada", PROMPTS, seed=world.RUN_SEED), "in order", num_steps=3)
    assert [step.weights for step in steps] == [pytest.approx(step.weights, rel=1e-6) for step in wanted]


def test_a_run_that_goes_on_from_the_checkpoint_before_draws_the_same(queue, tmp_path, monkeypatch):
    trainer = trainer_of(tmp_path, "ada", **{"trainer.save_freq": 1})
    played(trainer, queue, 2)
    trainer.global_steps = 2  # verl saves before it counts on
    trainer._save_checkpoint()
    trainer.global_steps = 3
    straight = played(trainer, queue, 3)  # over an epoch's end
    again = trainer_of(tmp_path, "ada")
    again._load_checkpoint()
    again.global_steps += 1
    assert again.global_steps == 3
    resumed = played(again, queue, 3)
    assert [step.weights for step in resumed] == [step.weights for step in straight]
    assert again.train_dataset.state_dict() == trainer.train_dataset.state_dict()


def test_a_checkpoint_without_a_memory_is_refused(queue, tmp_path):
    trainer = trainer_of(tmp_path, "ada")
    trainer.global_steps = 8
    trainer.prepare_step()
    with pytest.raises(RuntimeError, match="verl is at step 8, and the memory has learned from 0 steps"):
        trainer.replay_buffer.sample(global_steps=8, partition_id="train", batch_size=5)


def test_a_step_of_which_nothing_came_back_ends_the_run(queue, tmp_path, monkeypatch):
    async def failing(self, *given, **more):
        raise TimeoutError("the server is gone")

    monkeypatch.setattr(verl_world.Scripted, "run", failing)
    trainer = trainer_of(tmp_path, "grpo")
    trainer.prepare_step()
    with pytest.raises(RuntimeError, match="no response of step 1 has a reward"):
        trainer.replay_buffer.sample(global_steps=1, partition_id="train", batch_size=5)
    assert not queue.kv_list()["train"]


def test_a_step_without_a_signal_has_one_row_that_trains_nothing(queue, tmp_path, monkeypatch):
    run = verl_world.Scripted.run

    async def right(self, *given, **more):
        try:
            output = await run(self, *given, **more)
        except TimeoutError:
            return []
        return output.model_copy(update={"reward_score": 1.0})

    monkeypatch.setattr(verl_world.Scripted, "run", right)
    (step,) = played(trainer_of(tmp_path, "grpo"), queue, 1)
    assert (step.weights, step.figures["ada/signal"], step.figures["ada/pass_rate"]) == ({}, 0.0, 1.0)


def test_held_out_batches_are_verls_own(queue, tmp_path):
    trainer = trainer_of(tmp_path, "grpo")
    assert "ada_slot" not in trainer.val_dataset[0]
    queue.kv_batch_put(["u"], "val", tags=[{"is_prompt": True, "status": "finished", "global_steps": 1}])
    queue.kv_batch_put(["u_0_0"], "val", tags=[{"status": "success"}])
    batch, figures = trainer.replay_buffer.sample(global_steps=1, partition_id="val", batch_size=1)
    assert (batch.keys, figures) == (["u_0_0"], {})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data.dataloader_num_workers": 8}, "copies of the data set"),
        ({"trainer.v1.trainer_mode": "separate_async"}, "before the last ones are learned from"),
        ({"trainer.v1.sync.parameter_sync_step": 2}, "several updates of a step"),
        ({"trainer.v1.sampler.sync_refill_failed_groups": True}, "has no effect with a memory"),
        ({"data.custom_cls.path": "/somewhere/memory.py"}, "share one memory"),
        ({"trainer.v1.sampler.custom_sampler.name": "Other"}, "share one memory"),
        ({"actor_rollout_ref.rollout.n": 3}, "less than the 4 rows"),
        ({"actor_rollout_ref.rollout.custom.ada.timeout_s": 0}, "seconds above 0; got 0"),
    ],
)
def test_settings_with_which_no_memory_is_shared_are_refused(tmp_path, changes, said):
    base = {"actor_rollout_ref.rollout.custom.ada.method": "grpo", "actor_rollout_ref.rollout.n": 4}
    config = verl_world.config_of(tmp_path, WORDS, **base | changes)
    with pytest.raises(ConfigError, match=said):
        _ = arguments.settings_of(config), arguments.check(config, max_kept=4)


def test_the_replay_buffer_alone_is_refused(queue, tmp_path):
    with pytest.raises(ConfigError, match=r"data\.custom_cls is None, None, but data set and replay buffer share one"):
        trainer_of(tmp_path, "grpo", **{"data.custom_cls.path": None, "data.custom_cls.name": None})


def test_the_data_set_alone_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(memory.Memory, "current", None)
    config = verl_world.config_of(tmp_path, WORDS, **{"actor_rollout_ref.rollout.custom.ada.method": "grpo"})
    with pytest.raises(ConfigError, match="custom_sampler is not AdaReplayBuffer"):
        memory.AdaDataset(config.data.train_files, None, config.data)


@pytest.mark.parametrize(
    ("rows", "id_column", "said"),
    [
        ([("a", "x"), ("b", "x")], None, ""),
        ([("a", "x"), ("a", "y")], "name", "'a' is there twice"),
        ([("a", "x"), (None, "y")], "name", "row 1 has nothing in custom.ada.id_column=name"),
    ],
)
def test_rows_are_told_apart_by_what_they_ask_or_by_a_column(queue, tmp_path, rows, id_column, said):
    table = [{"name": name, "prompt": [{"role": "user", "content": text}]} for name, text in rows]
    verl_world.pyarrow.parquet.write_table(verl_world.pyarrow.Table.from_pylist(table), tmp_path / "train.parquet")
    words = {"id_column": id_column, "data.train_batch_size": 2}
    if said:
        with pytest.raises(ValueError, match=said):
            trainer_of(tmp_path, "grpo", **words)
    else:
        brain = trainer_of(tmp_path, "grpo", **words).train_dataset._memory.brain
        assert len(brain.core._prompts) == 1


@pytest.mark.parametrize(("objective", "slope"), [("linear", lambda p: 1.0), ("log", lambda p: (1 - (1 - p) ** 3) / p)])
def test_the_expected_update_over_all_outcomes_is_what_the_statement_says(
    queue, tmp_path, monkeypatch, objective, slope
):
    """Every outcome of four responses of one token, through verl's own queue, buffer, batch and advantages."""
    settings = {"advantage": "exact", "objective": objective, "group_size": 4, "data.train_batch_size": 1}
    trainer = trainer_of(tmp_path, "grpo", **settings, **{"actor_rollout_ref.actor.ppo_mini_batch_size": 1})
    rights = {}

    async def given(self, sampling_params, *, session_id, **others):
        return verl_world.AgentLoopOutput(
            prompt_ids=[1], response_ids=[2], response_mask=[1], response_logprobs=[0.0],
            reward_score=float(rights["now"][session_id]), num_turns=2, metrics={},
            extra_fields={"reward_extra_info": {}},
        )  # fmt: skip

    monkeypatch.setattr(verl_world.Scripted, "run", given)
    updates = {}
    for now in product((0, 1), repeat=4):
        rights["now"] = now
        (step,) = played(trainer, queue, 1)
        updates[now] = {int(name[2:]): weight * world.MAX_NEW_TOKENS for name, weight in step.weights.items()}
    for p in (0.05, 0.5, 0.9):
        found = sum(
            p ** sum(now) * (1 - p) ** (4 - sum(now)) * weight * (1 / p if now[index] else -1 / (1 - p))
            for now, weights in updates.items()
            for index, weight in weights.items()
        )
        assert found == pytest.approx(slope(p), rel=1e-6)


class Actor:
    """A brain whose calls are awaited, as a worker does them; of the driver's the answers come at once."""

    def __init__(self, name, method, prompts, options):
        self.brain, self.name = AskedBrain(method, prompts, **options), name

    def __getattr__(self, call):
        found = getattr(self.brain, call)

        def at_once(*given, **more):
            return found(*given, **more)

        async def remote(*given, **more):
            return found(*given, **more)

        at_once.remote = remote
        return at_once


@pytest.mark.parametrize("settings", [{}, {"curriculum": "posterior", "sampler": "balance_posterior"}])
def test_stopping_rules_ask_and_may_use_history(queue, tmp_path, monkeypatch, settings):
    """``test_verl_ray.py`` does it in processes."""
    monkeypatch.setattr(memory, "ActorBrain", Actor)
    words = verl_world.words_of_the_page()["memory and rules"]
    (manager,) = (word for word in words if "agent_loop_manager_class" in word)
    key, value = manager.removeprefix("+").split("=")
    trainer = trainer_of(tmp_path, "ada_seq_balance", manager=object(), **settings, **{key: value})
    actor = trainer.train_dataset._memory.brain
    monkeypatch.setattr(verl_world.worker.ray, "get_actor", lambda name: actor)
    trainer.agent_loop_manager = verl_world.InThisProcess(trainer.config, verl_world.worker.AdaAgentLoopWorker)
    found = played(trainer, queue)
    wanted = play_core(Core("ada_seq_balance", PROMPTS, seed=world.RUN_SEED, **settings), "shuffled")
    for step, other in zip(found, wanted, strict=True):
        assert step.figures["ada/responses"] == sum(other.drawn)
    assert_same(found, wanted)
