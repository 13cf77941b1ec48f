"""SkyRL's own trainers, loader and conversion on a CPU: the scripted policy, and a stand-in for its workers."""

from __future__ import annotations

import asyncio
import random
import sys
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typing_extensions

if sys.version_info < (3, 12):
    typing.TypedDict = typing_extensions.TypedDict  # pydantic refuses SkyRL's with the other one

from skyrl.train.config import SkyRLTrainConfig
from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.fully_async_trainer_sim import FullyAsyncTrainerSim
from skyrl.train.generators.base import GeneratorInterface
from skyrl.train.trainer import RayPPOTrainer

from ada_lightning.adapters.skyrl import experiment
from tests.tapes import world

GROUP = 4
"""Rows of a prompt."""
ROWS_OF = {"number": GROUP}
"""The same where a test has another number."""
SETTINGS = (
    "trainer.algorithm.advantage_estimator=ada",
    "trainer.algorithm.loss_reduction=seq_mean_token_sum_norm",
    f"trainer.algorithm.max_seq_len={world.MAX_NEW_TOKENS}",
    "trainer.algorithm.use_kl_loss=false",
    f"trainer.train_batch_size={world.PROMPTS_PER_STEP}",
    f"trainer.policy_mini_batch_size={world.PROMPTS_PER_STEP}",
    f"generator.n_samples_per_prompt={GROUP}",
    "data.dataloader.num_workers=0",
    "data.dataloader.persistent_workers=false",
    "trainer.eval_interval=-1",
    "trainer.enable_ray_gpu_monitor=false",
    "trainer.epochs=4",
    "trainer.hf_save_interval=-1",
    "trainer.placement.colocate_all=false",
    "generator.inference_engine.enable_ray_prometheus_stats=false",
)
FULLY_ASYNC = (
    "trainer.fully_async.enabled=true",
    "trainer.fully_async.simulate_training=true",
    "trainer.fully_async.simulate_training_step_seconds=0.01",
    "trainer.ckpt_interval=-1",
    f"trainer.fully_async.num_parallel_generation_workers={2 * world.PROMPTS_PER_STEP}",
    "trainer.fully_async.max_staleness_steps=2",
    "generator.batched=false",
    "trainer.algorithm.policy_loss_type=rollout_is",
)


def config_of(folder: Path, *words: str) -> Any:
    cfg = SkyRLTrainConfig.from_cli_overrides([*SETTINGS, f"trainer.ckpt_path={folder}/ckpt", *words])
    cfg.trainer.resume_mode = "none" if "trainer.resume_mode=latest" not in words else "latest"
    return cfg


class Rows:
    """What the trainer sees of SkyRL's data set."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}
        """Place of the prompt by uid, of every row that SkyRL's loader has handed over."""

    def __len__(self) -> int:
        return len(world.TEXTS)

    def __getitem__(self, place: int) -> Any:
        return [{"role": "user", "content": world.TEXTS[place]}], "x", {"place": place}, str(place)

    def collate_fn(self, items: Any) -> Any:
        self.asked |= {uid: str(extra["place"]) for _, _, extra, uid in items}
        return [{"prompt": p, "env_class": c, "env_extras": e, "uid": u} for p, c, e, u in items]


class Policy(GeneratorInterface):
    """SkyRL's generator: responses of the scripted policy, in the order of launch of each prompt."""

    def __init__(self) -> None:
        self.order, self.drawn = random.Random(2), dict[Any, int]()
        self.prompts: Any = None
        self.calls: list[str] = []
        self.hangs = ""

    async def generate(self, input_batch: Any, **options: Any) -> Any:
        for _ in range(self.order.randrange(6)):
            await asyncio.sleep(0)
        found: dict[str, list[Any]] = {name: [] for name in NAMES}
        for extra, trajectory in zip(input_batch["env_extras"], input_batch["trajectory_ids"], strict=True):
            uid, prompt_id = trajectory.instance_id, f"p{extra['place']}"
            if prompt_id == self.hangs:
                await asyncio.sleep(3600)
            index = self.drawn[uid] = self.drawn.get(uid, -1) + 1
            step, slot = map(int, uid.split("."))
            pool = self.prompts.brain._pool(step, slot)
            self.calls.append(uid)
            drawn = world.respond(extra["place"], pool.seed(index), step, graded=False)
            verdict = world.grade(world.text_of(drawn.token_ids))
            row = {
                "prompt_token_ids": [7], "response_ids": [index + 10, *drawn.token_ids[1:]],
                "rewards": verdict.reward or 0.0, "loss_masks": [1] * len(drawn.token_ids),
                "stop_reasons": "length" if drawn.is_truncated else "stop", "rollout_logprobs": list(drawn.logprobs),
            }  # fmt: skip
            for name in NAMES:
                found[name].append(row[name])
        return {**found, "trajectory_ids": input_batch["trajectory_ids"], "rollout_metrics": {}}


NAMES = ("prompt_token_ids", "response_ids", "rewards", "loss_masks", "stop_reasons", "rollout_logprobs")


class Dispatch:
    """In the place of SkyRL's workers: keeps what each update gets."""

    def __init__(self) -> None:
        self.updates: list[dict[str, float]] = []
        self.uids: list[str] = []

    def get_lcm_dp_size(self) -> int:
        return 1

    def stage_data(self, model: str, data: Any, boundaries: Any) -> list[Any]:
        assert boundaries == [(0, ROWS_OF["number"] * world.PROMPTS_PER_STEP)]
        self.updates.append(weights(data))
        return [None]

    def forward_backward_from_staged(self, model: str, chunk: Any) -> Any:
        return SimpleNamespace(metrics={})

    def optim_step(self, model: str) -> None:
        return None

    def empty_cache(self, *models: Any) -> None:
        pass

    def get_node_ids(self) -> list[str]:
        return []

    def init_weight_sync_state(self, client: Any) -> None:
        pass

    async def save_weights_for_sampler(self) -> None:
        pass

    def save_checkpoint(self, model: str, folder: str, tokenizer: Any) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)

    def load_checkpoint(self, *given: Any, **options: Any) -> None:
        pass


def weights(data: Any) -> dict[str, float]:
    """Factor of each row's tokens in the update, by ``slot/index``, after SkyRL's own reduction."""
    found = {}
    for row in range(len(data["advantages"])):
        trains = data["loss_mask"][row] > 0
        values = set(data["advantages"][row][trains].tolist())
        assert len(values) <= 1
        if values and values != {0.0}:
            first = data["sequences"][row][data["attention_mask"][row] > 0][1].item()
            found[f"{row // ROWS_OF['number']}/{int(first) - 10}"] = values.pop()
    return found


class Client:
    """In the place of SkyRL's inference client."""

    async def pause_generation(self) -> None:
        pass

    resume_generation = pause_generation

    def increment_weight_version(self) -> None:
        pass


class Tokenizer:
    eos_token_id = pad_token_id = 0

    def decode(self, ids: Any) -> str:
        return ""

    def pad(self, *given: Any, **options: Any) -> Any:
        raise AssertionError


class Tracker:
    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []

    def log(self, values: dict[str, Any], **options: Any) -> None:
        self.logged.append(dict(values))

    def finish(self) -> None:
        pass


def _forward(self: Any, training_input: Any) -> Any:
    training_input["values"] = None
    return training_input


class Sync(RayPPOTrainer):
    """SkyRL's synchronous trainer without models."""

    fwd_logprobs_values_reward = _forward

    def _cleanup_old_checkpoints(self) -> None:
        """SkyRL's asks every node, which would start Ray."""


class Async(experiment.Remembers, FullyAsyncTrainerSim):
    """SkyRL's fully asynchronous trainer, simulated by itself, but for the update."""

    fwd_logprobs_values_reward = _forward

    async def _run_training(self, training_input: Any) -> Any:
        await asyncio.sleep(0.01)
        training_input = self.compute_advantages_and_returns(self.fwd_logprobs_values_reward(training_input))
        self.dispatch_.uids += training_input.metadata["uids"][::GROUP]
        self.train_critic_and_policy(training_input)
        self._num_trained += 1
        return {}

    def init_weight_sync_state(self) -> None:
        self.dispatch = self.dispatch_


class Experiment(experiment.AdaExp):
    """SkyRL's experiment without engines."""

    def get_eval_dataset(self) -> None:
        return None

    def get_colocate_pg(self, *given: Any) -> None:
        return None


def trainer_of(cfg: Any, method: str, monkeypatch: Any, **options: Any) -> Any:
    """The trainer as SkyRL's experiment makes it."""
    rows = Rows()
    monkeypatch.setattr(BasePPOExp, "get_train_dataset", lambda self: rows)
    monkeypatch.setattr(BasePPOExp, "get_generator", lambda *given: policy)
    monkeypatch.setattr(sys.modules[BasePPOExp.__module__], "get_tokenizer", lambda *given, **options: Tokenizer())
    policy, dispatch = Policy(), Dispatch()
    exp = Experiment(cfg, method, **options)
    policy.prompts = exp.train_dataset
    generator = exp.get_generator(cfg, Tokenizer(), Client())
    is_async = cfg.trainer.fully_async.enabled
    kind = "AdaFullyAsyncTrainer" if is_async else "RayPPOTrainer"
    monkeypatch.setattr(
        experiment if is_async else sys.modules[BasePPOExp.__module__], kind, Async if is_async else Sync
    )
    trainer = exp.get_trainer(
        cfg=cfg, tracker=Tracker(), tokenizer=Tokenizer(), train_dataset=exp.train_dataset, eval_dataset=None,
        inference_engine_client=Client(), generator=generator, colocate_pg=None,
    )  # fmt: skip
    trainer.dispatch = trainer.dispatch_ = dispatch
    trainer.policy, trainer.rows = policy, rows
    trainer.ref_model = None
    return trainer
