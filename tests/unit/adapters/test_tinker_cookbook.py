"""The loop of tinker-cookbook against a bandit in this process: its own rollouts, its own data, its own train step."""

from __future__ import annotations

import asyncio
import importlib
import json
import pickle
import random
from types import SimpleNamespace

import pytest

from ada_lightning.adapters import Core, tested
from ada_lightning.config.problems import ConfigError
from tests.tapes import world
from tests.unit.adapters.conformance import COMBINATIONS, PROMPTS, WITH_OBJECTIVE, Played, assert_same

pytest.importorskip("tinker_cookbook")
tinker = pytest.importorskip("tinker")

from tinker_cookbook.rl import rollouts, train  # noqa: E402
from tinker_cookbook.rl.types import Env, EnvGroupBuilder, StepResult  # noqa: E402

adapter = importlib.import_module("ada_lightning.adapters.tinker_cookbook")
TOKENS = {prompt_id: list(world.prompt_tokens(int(prompt_id[1:]))) for prompt_id in PROMPTS}
OPTIONS = {"num_prompts": world.PROMPTS_PER_STEP, "num_steps": world.NUM_STEPS, "max_tokens": world.MAX_NEW_TOKENS}


class OneTurn(Env):
    """Asks, grades half of the reward itself and leaves the other half to its group."""

    def __init__(self, prompt_id):
        self.prompt_id, self.reward = prompt_id, 0.0

    async def initial_observation(self):
        return tinker.ModelInput.from_ints(TOKENS[self.prompt_id]), [0]

    async def step(self, action, *, extra=None):
        self.reward = grade(action)
        empty = tinker.ModelInput.empty()
        return StepResult(self.reward / 2, episode_done=True, next_observation=empty, next_stop_condition=[])


class Group(EnvGroupBuilder):
    def __init__(self, prompt_id):
        self.prompt_id, self.is_clean = prompt_id, False

    async def make_envs(self):
        return [OneTurn(self.prompt_id) for _ in range(3)]

    async def compute_group_rewards(self, trajectory_group, env_group):
        return [(env.reward / 2, {}) for env in env_group]

    async def cleanup(self):
        self.is_clean = True


class Service:
    """A sampler that answers in any order, and a training client that keeps what it is given."""

    def __init__(self, ada):
        self.ada, self.data, self.generator, self.asked = ada, [], random.Random(1), {}

    async def sample(self, *, prompt, num_samples, sampling_params):
        (prompt_id,) = {name for name, ids in TOKENS.items() if ids == prompt.to_ints()}
        (pool,) = [pool for pool in self.ada.core._open[0] if pool.prompt_id == prompt_id]
        index = self.asked[prompt_id] = self.asked.get(prompt_id, -1) + 1  # requests come in the order of launch
        for _ in range(self.generator.randrange(5)):
            await asyncio.sleep(0)
        drawn = world.respond(int(prompt_id[1:]), pool.seed(index), self.ada.core.step, graded=False)
        sequence = tinker.SampledSequence(
            stop_reason="length" if drawn.is_truncated else "stop",
            sequence_id=f"{pool.slot}/{index}",
            _tokens_list=list(drawn.token_ids),
            _logprobs_list=list(drawn.logprobs),
        )
        return tinker.SampleResponse(sequences=[sequence])

    def forward_backward(self, data, loss_fn, loss_fn_config):
        assert loss_fn == "importance_sampling"
        self.data += data
        outputs = [{"logprobs": datum.loss_fn_inputs["logprobs"]} for datum in data]
        return _later(SimpleNamespace(loss_fn_outputs=outputs))

    def optim_step(self, params):
        return _later(SimpleNamespace(metrics={}))


async def _later(value):
    return value


def grade(tokens):
    return world.grade(world.text_of(tokens)).reward or 0.0


def rollouts_of(rule, objective="log", **options):
    choice = {"objective": objective} if rule in WITH_OBJECTIVE else {}
    texts = {"texts": PROMPTS}
    return adapter.AdaRollouts(rule, {name: Group(name) for name in PROMPTS}, **(OPTIONS | texts | choice | options))


async def step_of(ada, index, service=None):
    """One step, as ``do_sync_training`` makes it."""
    service = service or Service(ada)
    groups = ada.get_batch(index)
    drawn = await asyncio.gather(
        *(
            rollouts.do_group_rollout_and_filter_constant_reward(
                service,
                group,
                max_tokens=world.MAX_NEW_TOKENS,
                temperature=1.0,
                do_remove_constant_reward_groups=False,
                enable_logging=False,
                strategy=adapter.AdaStrategy(),
            )
            for group in groups
        )
    )
    data, metrics, _ = await train.prepare_minibatch(
        groups, drawn, SimpleNamespace(decode=str), kl_reference_client=None, kl_penalty_coef=0, kl_discount_factor=0
    )
    await train.train_step(data, service, learning_rate=1e-4, num_substeps=1, loss_fn="importance_sampling")
    return groups, service.data, metrics


def played(groups, data):
    """Weight of every token in the update by the response's name; requests carry it in their provenance."""
    step = Played([group.pool.prompt_id for group in groups], [group.pool.num_drawn for group in groups])
    for datum in data:
        advantages = [value for value in datum.loss_fn_inputs["advantages"].data if value]
        names = {span.sequence_id for span in datum.loss_fn_input_spans}
        if advantages:
            (name,) = names
            assert len(set(advantages)) == 1
            slot, index = name.split("/")
            drawn = groups[int(slot)].pool
            seed = drawn.seed(int(index))
            tokens = world.respond(int(drawn.prompt_id[1:]), seed, groups[0].step._rollouts.core.step - 1, graded=False)
            assert datum.loss_fn_inputs["target_tokens"].data[-len(advantages) :] == list(tokens.token_ids)
            step.weights[name] = advantages[0]
    return step


@pytest.mark.parametrize(("rule", "objective"), COMBINATIONS)
def test_rows_advantages_and_denominator(rule, objective):
    """As a core that is driven in order: what fails is 0 here, so the tapes are not the measure."""
    ada = rollouts_of(rule, objective)
    plain = Core(rule, prompts=PROMPTS, seed=0, **({"objective": objective} if rule in WITH_OBJECTIVE else {}))
    for index in range(3):
        groups, data, metrics = asyncio.run(step_of(ada, index))
        pools = plain.choose(world.PROMPTS_PER_STEP)
        while not pools.is_complete:
            for pool in pools:
                for at in pool.launch(pool.want()):
                    drawn = world.respond(int(pool.prompt_id[1:]), pool.seed(at), index, graded=False)
                    pool.add(at, grade(drawn.token_ids), num_tokens=len(drawn.token_ids), payload=at,
                             is_truncated=drawn.is_truncated)  # fmt: skip
        wanted = Played([pool.prompt_id for pool in pools], [pool.num_drawn for pool in pools])
        denominator = plain.denominator(world.MAX_NEW_TOKENS)
        for pool in pools:
            wanted.weights |= {f"{pool.slot}/{row.payload}": row.advantage / denominator for row in pool.kept()}
        plain.tell(pools)
        assert_same([played(groups, data)], [wanted])
        assert metrics["env/all/ada/responses"] == sum(wanted.drawn) / len(wanted.drawn)
        assert all(group._builder.is_clean for group in groups)


def test_a_step_without_a_signal_still_has_something_to_send():
    ada = rollouts_of("grpo", num_prompts=1)
    service = Service(ada)
    for index in range(4):
        groups, data, metrics = asyncio.run(step_of(ada, index, service))
        if not groups[0].pool.kept():
            break
        service.data.clear()
        service.asked.clear()
    assert metrics["env/all/ada/signal"] == 0.0
    (datum,) = data
    assert set(datum.loss_fn_inputs["advantages"].data) == {0.0}


def test_a_resumed_run_goes_on_with_the_same_prompts(tmp_path):
    options = {"folder": tmp_path, "save_every": 2}
    whole = rollouts_of("ada", **options)
    names = [[group.pool.prompt_id for group in asyncio.run(step_of(whole, index))[0]] for index in range(4)]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["core_000002.json", "core_000004.json"]
    resumed = rollouts_of("ada", **options)
    groups = resumed.get_batch(2)  # was cut off before it was complete, and is asked for again
    assert [group.pool.prompt_id for group in resumed.get_batch(2)] == [group.pool.prompt_id for group in groups]
    assert [group.pool.prompt_id for group in groups] == names[2]
    assert json.loads((tmp_path / "core_000004.json").read_text())["step"] == 4
    with pytest.raises(ValueError, match="the loop asks for step 3, and the core has done 2"):
        resumed.get_batch(3)


def test_an_error_of_one_response_ends_the_step_for_all():
    ada = rollouts_of("grpo")

    async def one_step():
        service = Service(ada)
        sample = service.sample

        async def failing(**request):
            if service.generator.random() < 0.2:
                raise OSError("gone")
            return await sample(**request)

        service.sample = failing
        groups = ada.get_batch(0)
        policy = rollouts.TinkerTokenCompleter(service, world.MAX_NEW_TOKENS)
        return await asyncio.gather(
            *(adapter.AdaStrategy().execute(group, policy) for group in groups), return_exceptions=True
        )

    assert [type(result) for result in asyncio.run(one_step())] == [OSError] * world.PROMPTS_PER_STEP


def test_groups_of_others_are_drawn_as_the_cookbook_does():
    class Policy:
        async def __call__(self, prompt, stop, max_tokens=None):
            return rollouts.TinkerTokenCompleter  # never asked for tokens

    class NoTurn(Group):
        async def make_envs(self):
            return []

    result = asyncio.run(adapter.AdaStrategy().execute(NoTurn("p0"), Policy()))
    assert (result.trajectories, result.errors) == ([], [])
    with pytest.raises(TypeError, match="leave set_rollout_executor"):
        pickle.dumps(adapter.AdaStrategy())


def _config(ada, **changes):
    return train.Config(
        learning_rate=1e-4, model_name="meta-llama/Llama-3.1-8B", recipe_name="x", max_tokens=world.MAX_NEW_TOKENS,
        log_path="unused", **(ada.loop_arguments() | changes),
    )  # fmt: skip


def test_the_loops_settings_are_exact_as_they_are():
    ada = rollouts_of("ada_seq_balance")
    config = _config(ada)
    assert ada.check(config) == []
    assert config.effective_rollout_strategy() == adapter.AdaStrategy()
    assert asyncio.run(config.dataset_builder()) == (ada, None)
    assert len(ada) == world.NUM_STEPS
    assert "sums over tokens (exact)" in ada.statement()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"async_config": train.AsyncConfig(max_steps_off_policy=1, groups_per_batch=4)}, "several steps at once"),
        ({"num_epochs": 2}, "num_epochs = 2 is for the method"),
        ({"termination": train.TerminationRewardPolicy(zero_reward_on_limit=True)}, "would lower rewards that"),
    ],
)
def test_settings_with_which_rewards_would_mean_something_else_are_refused(changes, said):
    ada = rollouts_of("ada_seq_balance")
    with pytest.raises(ConfigError, match=said):
        ada.check(_config(ada, **changes))


@pytest.mark.parametrize(
    "changes", [{"num_substeps": 2}, {"kl_penalty_coef": 0.1}, {"temperature": 0.7}, {"loss_fn": "dro"}]
)
def test_settings_that_bend_the_update_are_named(changes):
    ada = rollouts_of("ada_seq_balance")
    (reason,) = ada.check(_config(ada, **changes))
    assert f"  approximate: {reason}" in ada.statement([reason])


def test_methods_that_need_more_than_the_loop_gives_are_refused():
    with pytest.raises(ConfigError, match="join a step, which the cookbook's loop does not give"):
        rollouts_of("dapo")


def test_another_version_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(tested, "version", lambda name: "0.7.0")
    with pytest.raises(ImportError, match=r"tested with tinker-cookbook>=0.6,<0.7, and 0.7.0 is installed"):
        importlib.reload(adapter)
