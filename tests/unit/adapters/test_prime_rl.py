"""prime-rl's own dispatcher, source, curriculum and sink with a memory: tasks, weights, what is lost or too old."""

from __future__ import annotations

import asyncio
import copy
import importlib
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("prime_rl.orchestrator.train_sink", exc_type=ImportError)

from prime_rl.orchestrator.ckpt import CheckpointManager
from prime_rl.orchestrator.types import Progress

from ada_lightning.adapters.prime_rl import __main__ as command
from ada_lightning.adapters.prime_rl.settings import FILE, read_settings
from ada_lightning.config.problems import ConfigError
from tests.tapes import world
from tests.unit.adapters import prime_world
from tests.unit.adapters.conformance import Played, assert_same, truth

DENOMINATOR = world.PROMPTS_PER_STEP * world.MAX_NEW_TOKENS


def settings(method="grpo", **more):
    given = {"method": method, "num_prompts": world.PROMPTS_PER_STEP, "seed": world.RUN_SEED, **more}
    return "[tasks]\n" + "\n".join(f"{key} = {value!r}".replace("'", '"') for key, value in given.items())


@pytest.mark.parametrize("rule", ["grpo", "ada"])
def test_tasks_and_weights_are_those_of_the_projects_own_loop_where_steps_follow_each_other(rule):
    async def run():
        made = prime_world.Orchestrator(settings(rule))
        for _ in range(world.NUM_STEPS):
            await made.begin(world.PROMPTS_PER_STEP)
            await made.deliver()
        return made

    made, wanted = asyncio.run(run()), truth(rule)
    assert made.sampler.brain.step == world.NUM_STEPS
    found = []
    for step in range(len(wanted)):
        groups = sorted(  # slot, task that was run, episodes that were begun
            (handout.slot, key, number)
            for key, named in made.env.handouts.items()
            for handout, number in named
            if handout.step == step
        )
        weights = {place: value / DENOMINATOR for place, value in made.weights.get(step, {}).items()}
        found.append(Played([key for _, key, _ in groups], [number for *_, number in groups], weights))
    assert_same(found, wanted, 1e-5)
    assert made.source.metrics()["curriculum/tasks/sampler/responses"] == sum(wanted[-1].drawn)


def test_steps_that_overlap_are_all_learned_from():
    async def run():
        made = prime_world.Orchestrator(settings("ada", open_steps=3))
        await made.begin(2 * world.PROMPTS_PER_STEP + 1)
        await made.deliver(until=5)
        await made.begin(3)
        await made.deliver()
        return made

    made = asyncio.run(run())
    assert made.sampler.brain.step == 2
    assert not any(made.sampler._flying.values())


def test_a_sampler_that_is_asked_for_more_than_may_be_open_gives_up_what_is_missing_of_the_oldest():
    async def run():
        made = prime_world.Orchestrator(settings(open_steps=1))
        await made.begin(world.PROMPTS_PER_STEP + 1)
        assert made.sampler.brain.step == 1
        assert made.source.metrics()["curriculum/tasks/sampler/ungraded/late"] == 4 * world.PROMPTS_PER_STEP
        await made.deliver()
        return made

    made = asyncio.run(run())
    assert 0 not in made.weights  # they came back too late: no evidence, and no training
    assert set(made.weights) <= {1}


def test_an_environment_that_fails_is_no_evidence():
    async def run():
        made = prime_world.Orchestrator(settings())
        made.env.fails = truth("grpo")[0].prompts[0]
        await made.begin(world.PROMPTS_PER_STEP)
        await made.deliver()
        return made

    made = asyncio.run(run())
    assert made.sampler.brain.step == 1
    assert made.source.metrics()["curriculum/tasks/sampler/ungraded/infrastructure"] >= 4
    assert not any(place.startswith("0/") for place in made.weights.get(0, {}))


def test_a_reward_that_never_comes_is_given_up_when_its_group_is_too_old():
    """prime-rl drops the group without telling the curriculum."""

    async def run():
        made = prime_world.Orchestrator(settings(), max_off_policy_steps=2)
        made.env.hangs = truth("grpo")[0].prompts[0]
        await made.begin(world.PROMPTS_PER_STEP)
        await made.deliver(until=4)
        for version in (1, 2, 3):
            made.policy.version, made.progress.step = version, version + 1
            await made.dispatcher.on_version_pending(version)
            await made.drain()
            before = made.sampler.brain.step
            made.env.hangs = ""
            await made.begin(1)
            await made.deliver(until=4 if version < 3 else 0)
        return made, before

    made, before = asyncio.run(run())
    assert (before, made.sampler.brain.step) == (0, 1)
    assert made.source.metrics()["curriculum/tasks/sampler/ungraded/stale"] == 4


def test_a_run_goes_on_where_its_checkpoint_was_written(tmp_path):
    """Through prime-rl's own checkpoint: what was under way is drawn anew, the same, and counted once."""

    async def run():
        first = prime_world.Orchestrator(settings("ada"))
        await first.begin(world.PROMPTS_PER_STEP)
        await first.deliver()
        await first.begin(2)  # under way when the run dies
        manager = CheckpointManager(tmp_path, SimpleNamespace(skip_progress=False))
        manager.save(first.progress, first.source, 1)
        asked = [g[0] for groups in first.env.handouts.values() for g in groups if g[0].step == 1]
        await first.deliver()
        second = prime_world.Orchestrator(settings("ada"))
        manager.load(Progress(), second.source, 1)
        assert second.sampler.brain.step == 1
        await second.begin(world.PROMPTS_PER_STEP)
        await second.deliver()
        again = [g[0] for groups in second.env.handouts.values() for g in groups]
        assert set(asked) <= set(again)
        return second

    made = asyncio.run(run())
    assert {place: value / DENOMINATOR for place, value in made.weights.get(1, {}).items()} == pytest.approx(
        truth("ada")[1].weights, rel=1e-5
    )


def test_a_state_of_other_tasks_is_refused():
    made = prime_world.Orchestrator(settings("ada"))
    state = copy.deepcopy(made.source.state_dict())
    state["envs"]["tasks"]["sampler"]["brain"]["core"]["prompts"] = "others"
    with pytest.raises(ValueError, match="other prompts"):
        made.source.load_state_dict(state)


@pytest.mark.parametrize(
    ("text", "changes", "said"),
    [
        (settings("ada_seq_balance"), {}, "ada_seq_balance draws a prompt in blocks"),
        (settings("ada_est_ema"), {}, "group_size = 4 has no effect"),
        (settings("grpo", group_size=8), {}, "prime-rl draws groups of group_size=4, not 8"),
        (settings(), {"group_size": 1}, "is prime-rl's default"),
        (settings(), {"curriculum": object()}, "would choose tasks next to the method"),
        (settings(), {"algo": SimpleNamespace(type="opd")}, "algo.type=opd"),
        ("[other]\nmethod = 'grpo'\nnum_prompts = 2", {}, "no training environment 'other'; there are tasks"),
        ("[tasks]\nmethod = 'grpo'", {}, "[tasks] needs method and num_prompts"),
        ("", {}, "names no environment"),
        ("[tasks", {}, "Expected"),
    ],
)
def test_what_cannot_work_is_refused(text, changes, said):
    config = prime_world.config_of(**changes)

    def make():
        made = prime_world.source_class(read_settings(config, text), 8)
        made(prime_world.Envs(prime_world.Env(config.train.source[0])))

    with pytest.raises(ConfigError) as caught:
        make()
    assert said in str(caught.value)


def test_an_episode_with_two_traces_that_train_is_refused():
    made = prime_world.Orchestrator(settings())
    handout = made.sampler.brain.hand_out()
    episode = prime_world.episode_of(handout.prompt_id, handout, 0)
    episode.traces.append(episode.traces[0])
    with pytest.raises(ValueError, match="has 2 traces that train"):
        made.sampler.observe([episode])


def test_the_command_puts_the_source_into_the_orchestrator(monkeypatch, tmp_path):
    file = tmp_path / "ada.toml"
    file.write_text(settings())
    monkeypatch.setenv(FILE, str(file))
    train_source = importlib.import_module("prime_rl.orchestrator.train_source")
    theirs = train_source.TrainSource
    monkeypatch.setattr(train_source, "TrainSource", theirs)
    command.install(prime_world.config_of())
    assert issubclass(train_source.TrainSource, theirs)
    assert train_source.TrainSource is not theirs
    monkeypatch.setitem(sys.modules, "prime_rl.orchestrator.orchestrator", object())
    with pytest.raises(RuntimeError, match="imported before"):
        command.install(prime_world.config_of())
    monkeypatch.setenv(FILE, str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="names no file"):
        command.install(prime_world.config_of())


def test_the_statement_is_approximate_and_says_why():
    made = prime_world.Orchestrator(settings("grpo", open_steps=3))
    said = made.sampler.brain.statement()
    assert "prime-rl (approximate)" in said
    assert all(
        word in said for word in ("tokens with credit", "max_off_policy_steps=8", "cut by the number", "3 steps")
    )
