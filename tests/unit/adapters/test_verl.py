"""verl's own worker, estimator and loss with a stand-in for its queue: rows and weights; what is refused."""

from __future__ import annotations

import asyncio
import importlib
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ada_lightning.adapters import tested
from ada_lightning.config.problems import ConfigError
from ada_lightning.core.step_records import StepSettings
from tests.tapes import world
from tests.unit.adapters.conformance import COMBINATIONS, WITH_OBJECTIVE, Played, assert_same, truth

ROOT = Path(__file__).resolve().parents[3]
ON_ONE_PROMPT = ("grpo", "ada_seq_balance", "ada_seq_pos")
"""Of the suite's rules; the others remember prompts, or choose them, which a worker does not see."""


pytest.importorskip("verl")
torch = pytest.importorskip("torch")
from hydra import compose, initialize_config_module  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from verl.experimental.agent_loop import agent_loop  # noqa: E402
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput  # noqa: E402
from verl.protocol import DataProto  # noqa: E402
from verl.trainer.ppo.core_algos import agg_loss, get_adv_estimator_fn  # noqa: E402
from verl.trainer.ppo.v1 import agent_loop_tq  # noqa: E402
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories  # noqa: E402

arguments = importlib.import_module("ada_lightning.adapters.verl.arguments")
worker = importlib.import_module("ada_lightning.adapters.verl.worker")
words_of_the_page = importlib.import_module("tests.unit.adapters.verl_world").words_of_the_page
plugin = importlib.import_module("ada_lightning.adapters.verl.plugin")


END = 99


class Queue:
    """What is put into verl's queue, by key."""

    def __init__(self):
        self.status, self.rows = {}, {}

    async def async_kv_put(self, key, partition_id, tag):
        self.status[key] = tag["status"]

    async def async_kv_batch_put(self, keys, fields, tags, partition_id):
        for at, (key, tag) in enumerate(zip(keys, tags, strict=True)):
            assert tag["status"] == "success"
            self.rows[key] = fields[at]


class Scripted:
    """An agent loop: the scripted policy, whose sessions end in any order."""

    generator = random.Random(3)

    def __init__(self, **given):
        pass

    async def run(self, sampling_params, *, slot, prompt_id, session_id, global_steps, **others):
        for _ in range(self.generator.randrange(6)):
            await asyncio.sleep(0)
        settings = StepSettings(seed=world.RUN_SEED)
        seed = settings.request_seed("train", global_steps, slot, prompt_id, session_id)
        drawn = world.respond(int(prompt_id[1:]), seed, global_steps, graded=False)
        verdict = world.grade(world.text_of(drawn.token_ids))
        if verdict.reward is None:
            raise TimeoutError(verdict.failure)
        return AgentLoopOutput(
            prompt_ids=list(world.prompt_tokens(int(prompt_id[1:]))),
            response_ids=list(drawn.token_ids),
            response_mask=[1] * len(drawn.token_ids),
            response_logprobs=list(drawn.logprobs),
            reward_score=verdict.reward,
            num_turns=2,
            metrics={},
            extra_fields={"reward_extra_info": {"acc": verdict.reward}},
        )


def config_of(**changes):
    """What is looked at of verl's configuration, with the values of ``docs/verl.md``."""
    config = {
        "algorithm": {"adv_estimator": "ada", "use_kl_in_reward": False, "filter_groups": {"enable": False}},
        "data": {"train_batch_size": world.PROMPTS_PER_STEP, "max_response_length": world.MAX_NEW_TOKENS},
        "reward": {"reward_model": {"enable": False, "enable_resource_pool": False}},
        "trainer": {"use_v1": True, "v1": {"trainer_mode": "sync"}},
        "actor_rollout_ref": {
            "actor": {
                "loss_agg_mode": "token-sum", "ppo_mini_batch_size": world.PROMPTS_PER_STEP, "ppo_epochs": 1,
                "use_kl_loss": False, "entropy_coeff": 0, "policy_loss": {"loss_mode": "vanilla"},
            },
            "rollout": {"n": 4, "temperature": 1.0, "top_p": 1, "top_k": -1, "custom": {"ada": {"method": "grpo"}}},
        },
    }  # fmt: skip
    config = OmegaConf.create(config)
    for key, value in changes.items():
        OmegaConf.update(config, key, value)
    return config


def composed(words):
    """verl's own configuration with these overrides."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=words)


def check(config):
    """As the manager does before anything is drawn."""
    return arguments.check(config, max_kept=worker.prompt_steps(config).max_kept())


@pytest.fixture
def queue(monkeypatch):
    made = Queue()
    monkeypatch.setattr(agent_loop_tq, "tq", made)
    monkeypatch.setattr(worker, "transfer_queue", made)
    monkeypatch.setitem(agent_loop._agent_loop_registry, "scripted", {"_target_": f"{__name__}.Scripted"})
    return made


def worker_of(config):
    """verl's worker without a tokenizer, servers or Ray."""
    made = object.__new__(worker.AdaAgentLoopWorker)
    made.config, made.tools, made.distillation_enabled = config, [], False
    made.llm_client = made.processor = made.hf_model_type = made.dataset_cls = None
    made.tokenizer, made.model_config = SimpleNamespace(eos_token_id=END), SimpleNamespace(generation_config=None)
    made.reward_loop_worker_handles = None
    made.prepare(config)
    return made


async def play(made, prompts, step, **given):
    trajectory = {"step": step, "sample_index": 0, "rollout_n": 0, "validate": False} | given
    await asyncio.gather(
        *(
            made._run_prompt(
                {
                    "uid": f"s{slot}", "slot": slot, "prompt_id": prompt_id, "global_steps": step, "raw_prompt": "",
                    "agent_name": "scripted",
                },
                {},
                trajectory,
            )
            for slot, prompt_id in enumerate(prompts)
        )
    )  # fmt: skip


def weights(rows):
    """Factor of a token's log-probability by ``slot/index``: verl's padding, advantages, loss and its gradient."""
    keys = [*rows, "pad0_0_0"]  # one of the rows that verl adds
    width = world.MAX_NEW_TOKENS

    def padded(values):
        return torch.stack([torch.nn.functional.pad(value.float(), (0, width - len(value))) for value in values])

    nothing = torch.zeros(1)
    mask = padded([*(rows[key]["response_mask"] for key in rows), nothing])
    batch = {"token_level_rewards": padded([*(rows[key]["rm_scores"] for key in rows), nothing]), "response_mask": mask}
    data = DataProto.from_dict(batch, {"uid": np.array([key.split("_")[0] for key in keys], dtype=object)})
    data = compute_advantage_for_multi_trajectories(
        data, keys, adv_estimator=plugin.NAME, num_repeat=4, config=OmegaConf.create({})
    )
    logprobs = torch.zeros_like(mask, requires_grad=True)
    agg_loss(-data.batch["advantages"] * logprobs, mask, "token-sum").backward()
    found = {}
    for key, gradient, own in zip(keys, -logprobs.grad, mask, strict=True):
        (weight,) = set(gradient[own > 0].tolist()) or {0.0}
        assert gradient[own == 0].abs().sum() == 0
        if weight:
            uid, session, _ = key.split("_")
            found[f"{uid[1:]}/{session}"] = weight
    return found


@pytest.mark.parametrize(("rule", "objective"), [pair for pair in COMBINATIONS if pair[0] in ON_ONE_PROMPT])
def test_rows_advantages_and_denominator_are_those_of_the_projects_own_loop(queue, rule, objective):
    ada = {"method": rule} | ({"objective": objective} if rule in WITH_OBJECTIVE else {})
    made, found = worker_of(config_of(**{"actor_rollout_ref.rollout.custom.ada": ada})), []
    for step, wanted in enumerate(truth(rule, objective)):
        queue.rows.clear()
        asyncio.run(play(made, wanted.prompts, step))
        assert queue.status == {f"s{slot}": "finished" for slot in range(len(wanted.prompts))}
        drawn = {}
        for key, row in queue.rows.items():
            extra = row["extra_fields"]
            info = getattr(extra, "data", extra)["reward_extra_info"]
            assert info["ada_reward"] == info["acc"]
            drawn[int(key.split("_")[0][1:])] = int(info["ada_responses"])
        found.append(Played(wanted.prompts, [drawn[slot] for slot in range(len(drawn))], weights(queue.rows)))
    assert_same(found, truth(rule, objective))


def test_validation_is_verls_own(queue):
    made = worker_of(config_of(**{"actor_rollout_ref.rollout.val_kwargs": {"n": 2}}))
    asyncio.run(play(made, ["p9"], 0, validate=True))
    assert [row["rm_scores"].sum().item() in (0.0, 1.0) for row in queue.rows.values()] == [True] * 2


@pytest.mark.parametrize("how", ["no reward", "it raises", "no output"])
def test_a_prompt_of_which_every_session_failed_has_the_one_row_that_trains_nothing(queue, monkeypatch, how):
    run = Scripted.run

    async def failing(self, *positional, prompt_id, **given):
        output = await run(self, *positional, prompt_id=prompt_id, **given)
        if prompt_id == "p3" and how == "it raises":
            raise TimeoutError("the server is gone")
        if prompt_id == "p3" and how == "no output":
            return []
        return output.model_copy(update={"reward_score": None}) if prompt_id == "p3" else output

    monkeypatch.setattr(Scripted, "run", failing)
    asyncio.run(play(worker_of(config_of()), ["p9", "p3"], 0))
    assert queue.status == {"s0": "finished", "s1": "finished"}
    (row,) = (row for key, row in queue.rows.items() if key.startswith("s1"))
    assert (row["response_mask"].tolist(), row["rm_scores"].tolist()) == ([0], [0.0])
    assert all(not key.startswith("1/") for key in weights(queue.rows))


@pytest.mark.parametrize(("last", "is_truncated"), [(END, False), (98, False), (5, True)])
def test_a_response_that_ends_at_the_limit_is_not_cut(last, is_truncated):
    made = worker_of(config_of())
    made.model_config.generation_config = SimpleNamespace(eos_token_id=[98, END])
    made.prepare(config_of())
    pools = made.steps.begin("p", step=0)
    (pool,) = pools
    (index, *_) = pool.launch(pool.want())
    length = world.MAX_NEW_TOKENS
    output = AgentLoopOutput(
        prompt_ids=[1], response_ids=[5] * (length - 1) + [last], response_mask=[1] * length,
        response_logprobs=[0.0] * length, reward_score=1.0, num_turns=2, metrics={},
    )  # fmt: skip
    finished = SimpleNamespace(exception=lambda: None, result=lambda: [output])
    outputs, told = made._outcome(finished, index, pool.prompt_id)
    assert (outputs, told["is_truncated"]) == ([output], is_truncated)


@pytest.mark.parametrize("what", ["worker", "own group sizes", "memory", "memory and rules"])
def test_the_configuration_of_the_page_is_one_of_verls_and_exact(what):
    config = composed(words_of_the_page()[what])
    max_kept = 4 if "memory" in what else worker.prompt_steps(config).max_kept()
    assert arguments.check(config, max_kept=max_kept) == []
    assert arguments.has_memory(config) is ("memory" in what)
    assert arguments.draws_by_rule(config) is (what != "memory")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithm.adv_estimator": "grpo"}, "advantages of advantages"),
        ({"algorithm.use_kl_in_reward": True}, "adds to rewards"),
        ({"algorithm.filter_groups.enable": True}, "drops groups"),
        ({"actor_rollout_ref.actor.loss_agg_mode": "token-mean"}, "divides by what was kept"),
        ({"actor_rollout_ref.rollout.n": 3}, "less than the 4 rows"),
        ({"actor_rollout_ref.actor.ppo_mini_batch_size": 2}, "several updates"),
        ({"trainer.use_v1": False}, "no agent loop"),
        ({"reward.reward_model.enable": True}, "the rule needs them meanwhile"),
        ({"actor_rollout_ref.rollout.custom": None}, "no method"),
    ],
)
def test_settings_with_which_rows_would_mean_something_else_are_refused(changes, said):
    with pytest.raises(ConfigError, match=said):
        check(config_of(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"actor_rollout_ref.actor.ppo_epochs": 2},
        {"actor_rollout_ref.actor.use_kl_loss": True},
        {"actor_rollout_ref.actor.policy_loss.loss_mode": "gspo"},
        {"trainer.v1.trainer_mode": "separate_async"},
        {"actor_rollout_ref.rollout.temperature": 0.8},
        {"algorithm.rollout_correction": {"rollout_is": "token", "rollout_rs": None}},
    ],
)
def test_settings_that_bend_the_update_are_named(changes):
    assert len(check(config_of(**changes))) == 1


def test_a_plugin_that_is_not_there_is_missed(monkeypatch):
    from verl.trainer.ppo import core_algos

    assert get_adv_estimator_fn("ada") is plugin.advantage_is_the_reward
    monkeypatch.delitem(core_algos.ADV_ESTIMATOR_REGISTRY, "ada")
    with pytest.raises(ConfigError, match="has not loaded ada_lightning's plug-in"):
        check(config_of())


def test_the_manager_starts_workers_of_this_kind():
    manager = worker.AdaAgentLoopManager(config_of(**{"actor_rollout_ref.model": {}}), llm_client=None)
    actor = manager.agent_loop_workers_class.__ray_metadata__.modified_class
    assert issubclass(actor, worker.AdaAgentLoopWorker)


def test_every_setting_that_is_looked_at_is_one_of_verls():
    config = composed(["+actor_rollout_ref.rollout.custom.ada.method=grpo"])
    with pytest.raises(ConfigError) as caught:  # its own defaults: what has to be changed, and no missing key
        check(config)
    assert "adv_estimator" in str(caught.value)
    assert "loss_agg_mode" in str(caught.value)


def test_verl_finds_the_plugin_by_itself(tmp_path):
    """As an installed package names it."""
    info = tmp_path / "ada_lightning-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ada-lightning\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[verl.plugins]\nada_lightning = ada_lightning.adapters.verl.plugin\n")
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import verl; "
        "from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY as known; print('ada' in known)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout.strip().endswith("True")
    named = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points."verl.plugins"]' in named
    assert 'ada_lightning = "ada_lightning.adapters.verl.plugin"' in named


def test_another_version_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(tested, "version", lambda name: "0.10.0")
    with pytest.raises(ImportError, match=r"tested with verl>=0.9,<0.10, but 0.10.0 is installed"):
        importlib.reload(plugin)


def test_a_name_that_is_gone_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(
        agent_loop_tq, "AgentLoopWorkerTQ", SimpleNamespace(__ray_metadata__=SimpleNamespace(modified_class=object))
    )
    with pytest.raises(ImportError, match=r"has no _run_prompt, "):
        importlib.reload(worker)
