"""SkyRL's own trainers with a memory: a step's rows and weights, overlap, faults, and what is refused."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("skyrl")

from ada_lightning.adapters import Core
from ada_lightning.adapters.skyrl.arguments import approximations, refusals
from ada_lightning.config.problems import ConfigError
from tests.tapes import world
from tests.unit.adapters import skyrl_world
from tests.unit.adapters.conformance import COMBINATIONS, PROMPTS, WITH_OBJECTIVE, Played, assert_same, outcome


def own_loop(rule, objective, num_steps):
    """The library's own loop, told what SkyRL has: rewards that are not there are 0."""
    prompts = {name[1:]: text for name, text in PROMPTS.items()}  # SkyRL's uids are places in the data set
    core, steps = Core(rule, prompts, seed=world.RUN_SEED, **chosen(rule, objective)), []
    for _ in range(num_steps):
        pools = core.choose(world.PROMPTS_PER_STEP)
        while launched := [(pool, index) for pool in pools for index in pool.launch(pool.want())]:
            for pool, index in launched:
                told = outcome(f"p{pool.prompt_id}", pool.seed(index), core.step, graded=False)
                known = {"reward": told["reward"] or 0.0, "num_tokens": told["num_tokens"]}
                pool.add(index, **known, is_truncated=told["is_truncated"], logprobs=told["logprobs"])
        kept = {f"{pool.slot}/{row.index}": row.advantage for pool in pools for row in pool.kept()}
        denominator = core.denominator(world.MAX_NEW_TOKENS)
        weights = {name: advantage / denominator for name, advantage in kept.items()}
        steps.append(Played([pool.prompt_id for pool in pools], [pool.num_drawn for pool in pools], weights))
        core.tell(pools)
    return steps


def chosen(rule, objective):
    return {"objective": objective} if rule in WITH_OBJECTIVE else {}


def train(folder, monkeypatch, rule, *words, seed=world.RUN_SEED, **options):
    """Train as SkyRL does, and say what each update was made of."""
    monkeypatch.setitem(skyrl_world.ROWS_OF, "number", options.pop("rows", skyrl_world.GROUP))
    trainer = skyrl_world.trainer_of(skyrl_world.config_of(folder, *words), rule, monkeypatch, seed=seed, **options)
    asyncio.run(trainer.train())
    return trainer


def updates_of(trainer):
    return trainer.dispatch_.updates


def steps_of(trainer):
    """What the generator was asked for, and what each update was made of."""
    asked, drawn = trainer.rows.asked, trainer.policy.drawn
    first = min(int(uid.split(".")[0]) for uid in asked)
    steps = []
    for step, weights in enumerate(updates_of(trainer), start=first):
        uids = [f"{step}.{slot}" for slot in range(world.PROMPTS_PER_STEP)]
        steps.append(Played([asked[uid] for uid in uids], [drawn.get(uid, -1) + 1 for uid in uids], weights))
    return steps


@pytest.mark.parametrize(
    ("rule", "objective"), [pair for pair in COMBINATIONS if pair[1] == "log" or pair[0] == "ada_seq_balance"]
)
def test_updates_of_the_synchronous_trainer_are_those_of_the_own_loop(rule, objective, monkeypatch, tmp_path):
    rows = Core(rule, PROMPTS).max_kept
    words = ["trainer.ckpt_interval=-1", "trainer.max_training_steps=3", f"generator.n_samples_per_prompt={rows}"]
    trainer = train(tmp_path, monkeypatch, rule, *words, rows=rows, **chosen(rule, objective))
    wanted = own_loop(rule, objective, 3)
    assert [sum(played.drawn) for played in wanted] == [
        logged["ada/responses"] for logged in trainer.tracker.logged if "ada/responses" in logged
    ]
    assert_same(steps_of(trainer), wanted, 1e-5)


@pytest.mark.parametrize("rule", ["ada_seq_balance", "ada"])
def test_a_synchronous_run_goes_on_where_its_checkpoint_was_written(rule, monkeypatch, tmp_path):
    """The memory travels in SkyRL's own ``data.pt``."""
    words = ["trainer.ckpt_interval=1"]
    train(tmp_path, monkeypatch, rule, *words, "trainer.max_training_steps=1")
    second = train(tmp_path, monkeypatch, rule, *words, "trainer.max_training_steps=3", "trainer.resume_mode=latest")
    wanted = own_loop(rule, "log", 3)[1:]
    assert_same(steps_of(second), wanted, 1e-5)


def test_a_generator_that_dies_between_drawing_and_telling_is_asked_again(monkeypatch, tmp_path):
    words = ["trainer.ckpt_interval=1"]
    train(tmp_path, monkeypatch, "ada", *words, "trainer.max_training_steps=1")
    config = skyrl_world.config_of(tmp_path, *words, "trainer.max_training_steps=2", "trainer.resume_mode=latest")
    dying = skyrl_world.trainer_of(config, "ada", monkeypatch, seed=world.RUN_SEED)
    generate, calls = dying.policy.generate, []

    async def failing(batch, **options):
        calls.append(batch)
        if len(calls) == 3:
            raise ConnectionError("the engine is gone")
        return await generate(batch, **options)

    dying.policy.generate = failing
    with pytest.raises(ConnectionError):
        asyncio.run(dying.train())
    second = train(tmp_path, monkeypatch, "ada", *words, "trainer.max_training_steps=2", "trainer.resume_mode=latest")
    wanted = own_loop("ada", "log", 2)[1:]
    assert_same(steps_of(second), wanted, 1e-5)


def test_a_reward_that_never_comes_is_ungraded(monkeypatch, tmp_path):
    words = ["trainer.ckpt_interval=-1", "trainer.max_training_steps=1"]
    trainer = skyrl_world.trainer_of(
        skyrl_world.config_of(tmp_path, *words), "grpo", monkeypatch, seed=world.RUN_SEED, timeout=0.2
    )
    trainer.policy.hangs = f"p{own_loop('grpo', 'log', 1)[0].prompts[1]}"
    asyncio.run(trainer.train())
    assert not any(name.startswith("1/") for name in updates_of(trainer)[0])
    assert trainer.tracker.logged[0]["ada/ungraded"] == 4


@pytest.mark.parametrize("rule", ["grpo", "ada_seq_balance", "ada"])
def test_the_asynchronous_trainer_takes_whole_steps_in_their_order(rule, monkeypatch, tmp_path):
    """Where nothing is remembered, each update is that of the own loop, whatever finished first."""
    words = [*skyrl_world.FULLY_ASYNC, "trainer.max_training_steps=5"]
    trainer = train(tmp_path, monkeypatch, rule, *words)
    uids = [f"{step}.{slot}" for step in range(5) for slot in range(world.PROMPTS_PER_STEP)]
    assert sorted(trainer.dispatch_.uids, key=uids.index) == uids  # over three epochs of two steps
    batches = [trainer.dispatch_.uids[at : at + 5] for at in range(0, 25, 5)]
    assert [{uid.split(".")[0] for uid in batch} for batch in batches] == [{str(step)} for step in range(5)]
    if rule != "ada":
        wanted = own_loop(rule, "log", 5)
        found = []
        for played, batch in zip(steps_of(trainer), batches, strict=True):
            slots = [uid.split(".")[1] for uid in batch]  # prompts of a step come as they were taken up
            named = {f"{slots[int(name.split('/')[0])]}/{name.split('/')[1]}": w for name, w in played.weights.items()}
            found.append(Played(played.prompts, played.drawn, named))
        assert_same(found, wanted, 1e-5)


def test_an_asynchronous_checkpoint_has_the_state_of_what_has_trained(monkeypatch, tmp_path):
    words = [*skyrl_world.FULLY_ASYNC, "trainer.max_training_steps=3"]
    first = train(tmp_path, monkeypatch, "ada_seq_balance", *words)
    state = first.ada_state()
    assert state["core"]["step"] == 3 <= first.train_dataset.brain.step
    second = skyrl_world.trainer_of(skyrl_world.config_of(tmp_path, *words), "ada_seq_balance", monkeypatch)
    second.resume(state, {"2.1", "2.0"})
    assert [second.train_dataset[0][3] for _ in range(4)] == ["2.0", "2.1", "3.0", "3.1"]
    asked = [handout.prompt_id for handout in second.train_dataset.handed.values()]
    assert asked == own_loop("ada_seq_balance", "log", 4)[3].prompts[:2]


def test_a_step_that_skyrl_cuts_is_refused(monkeypatch, tmp_path):
    config = skyrl_world.config_of(tmp_path, "trainer.ckpt_interval=-1", "trainer.max_training_steps=1")
    trainer = skyrl_world.trainer_of(config, "grpo", monkeypatch)
    trainer.dispatch_.get_lcm_dp_size = lambda: 16
    with pytest.raises(ValueError, match="SkyRL hands over 4 of the 5 prompts of a step"):
        asyncio.run(trainer.train())


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("trainer.algorithm.advantage_estimator=grpo", "would rescale advantages; use ada"),
        ("trainer.algorithm.loss_reduction=token_mean", "divide by what was kept"),
        ("trainer.algorithm.advantage_batch_normalize=true", "advantage_batch_normalize"),
        ("trainer.algorithm.zero_variance_filter=true", "drop groups"),
        ("trainer.algorithm.dynamic_sampling.type=filter", "drop groups"),
        ("trainer.algorithm.use_kl_in_reward=true", "adds to rewards"),
        ("generator.apply_overlong_filtering=true", "change rows behind the method"),
        ("trainer.policy_mini_batch_size=1", "several updates"),
        ("generator.n_samples_per_prompt=3", "less than the 4 rows"),
        ("data.dataloader.num_workers=2", "copies of the data set would choose"),
        ("trainer.critic.model.path=m", "names a critic"),
    ],
)
def test_settings_with_which_rows_would_mean_something_else_are_refused(word, said, monkeypatch, tmp_path):
    config = skyrl_world.config_of(tmp_path, word)
    assert any(said in problem for problem in refusals(config, max_kept=4))
    with pytest.raises(ConfigError, match=said):
        skyrl_world.Experiment(config, "grpo")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("trainer.fully_async.enabled=true", "up to 4 updates older"),
        ("trainer.update_epochs_per_batch=2", "off-policy"),
        ("trainer.algorithm.use_kl_loss=true", "on by default"),
        ("trainer.algorithm.policy_loss_type=gspo", "no sum"),
        ("trainer.algorithm.off_policy_correction.tis_ratio_type=token", "engine's ratio"),
        ("generator.sampling_params.temperature=0.7", "temperature=0.7"),
    ],
)
def test_settings_that_bend_the_update_are_named(word, said, tmp_path):
    assert not list(approximations(skyrl_world.config_of(tmp_path)))
    found = list(approximations(skyrl_world.config_of(tmp_path, word)))
    assert len(found) == 1
    assert said.replace("no sum", "is not a sum") in found[0]


def test_the_statement_of_the_synchronous_trainer_is_exact(monkeypatch, tmp_path, capsys):
    skyrl_world.trainer_of(skyrl_world.config_of(tmp_path), "ada_seq_balance", monkeypatch)
    assert "SkyRL's trainer (exact)" in capsys.readouterr().out
    config = skyrl_world.config_of(tmp_path, *skyrl_world.FULLY_ASYNC)
    skyrl_world.trainer_of(config, "ada_seq_balance", monkeypatch)
    assert "fully asynchronous trainer (approximate)" in capsys.readouterr().out
