"""verl's own trainer without its engines: its loader, queue, replay buffer, batches and advantages, step by step.

Everything that the trainer does is its own code, and so is the worker's. What stands in: the agent loop, which is the
scripted policy, the optimiser, and, where no Ray is started, the queue.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter, defaultdict
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow
import pyarrow.parquet
import torch
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from tensordict import NonTensorStack, TensorDict
from verl.experimental.agent_loop import agent_loop
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.trainer.ppo import padding_utils
from verl.trainer.ppo.core_algos import agg_loss
from verl.trainer.ppo.v1 import agent_loop_tq, replay_buffer, trainer_base
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from ada_lightning.adapters.verl import buffer, worker
from tests.tapes import world
from tests.unit.adapters.conformance import PROMPTS, Played, outcome

PAGE = Path(__file__).resolve().parents[3] / "docs" / "verl.md"
Worker = agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class
MODULES = (trainer_base, replay_buffer, agent_loop_tq, padding_utils)


def words_of_the_page() -> dict[str, list[str]]:
    """Return the overrides that ``docs/verl.md`` gives verl's program, by the way that they set up."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    settings = [[word for word in block.split() if "=" in word] for block in blocks if "custom.ada.method" in block]
    command, sizes, memory, rules = settings

    def without_method(words: list[str]) -> list[str]:
        return [word for word in words if "custom.ada." not in word]

    return {
        "worker": command,
        "own group sizes": without_method(command) + sizes,
        "memory": memory,
        "memory and rules": without_method(memory) + rules,
    }


class Queue:
    """What is in verl's queue, with the calls that its trainer, replay buffer and workers make."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        self.rows: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))

    def kv_list(self, partition_id: str | None = None) -> dict[str, dict[str, dict[str, Any]]]:
        return {name: {key: dict(tag) for key, tag in tags.items()} for name, tags in self.tags.items()}

    def kv_batch_put(self, keys: Any, partition_id: str, fields: Any = None, tags: Any = None) -> Any:
        columns = {}
        for name in fields.keys() if fields is not None else ():
            value = fields[name]
            is_tensor = isinstance(value, torch.Tensor)
            columns[name] = value.unbind() if is_tensor else [getattr(each, "data", each) for each in list(value)]
        for at, key in enumerate(keys):
            self.tags[partition_id].setdefault(key, {}).update(tags[at] if tags else {})
            for name, column in columns.items():
                self.rows[partition_id][key][name] = column[at]
        return trainer_base.KVBatchMeta(
            partition_id=partition_id, keys=list(keys), tags=[self.tags[partition_id][key] for key in keys]
        )

    def kv_batch_get(self, keys: Any, partition_id: str, select_fields: Any = None) -> Any:
        rows = [self.rows[partition_id][key] for key in keys]
        found = {}
        for name in select_fields or rows[0]:
            values = [row[name] for row in rows if name in row]
            if not values:
                continue  # verl asks for columns that may not be there, and gets the others
            assert len(values) == len(rows), name
            is_tensor = isinstance(values[0], torch.Tensor)
            found[name] = (
                torch.nested.as_nested_tensor(values, layout=torch.jagged) if is_tensor else NonTensorStack(*values)
            )
        return TensorDict(found, [len(rows)])

    def kv_clear(self, keys: Any, partition_id: str) -> None:
        for key in [keys] if isinstance(keys, str) else keys:
            self.tags[partition_id].pop(key, None)
            self.rows[partition_id].pop(key, None)

    async def async_kv_put(self, key: str, partition_id: str, tag: Any) -> None:
        self.kv_batch_put([key], partition_id, tags=[tag])

    async def async_kv_batch_put(self, keys: Any, fields: Any, tags: Any, partition_id: str) -> None:
        self.kv_batch_put(keys, partition_id, fields, tags)


class Scripted:
    """An agent loop: the scripted policy, whose sessions end in any order."""

    generator = random.Random(3)
    hangs: frozenset[tuple[int, int, int]] = frozenset()
    """(step, slot, session) of those that never end."""
    begun: ClassVar[Counter[tuple[int, int]]] = Counter()
    """Sessions that were begun so far in this process, by (step, slot)."""

    def __init__(self, **given: Any) -> None:
        pass

    async def run(
        self, sampling_params: Any, *, ada_step: int, ada_slot: int, ada_prompt_id: str, session_id: int, **others: Any
    ) -> Any:
        self.begun[ada_step, ada_slot] += 1
        for _ in range(self.generator.randrange(6)):
            await asyncio.sleep(0)
        if (ada_step, ada_slot, session_id) in self.hangs:
            await asyncio.sleep(3600)
        settings = world_settings()
        seed = settings.request_seed("train", ada_step, ada_slot, ada_prompt_id, session_id)
        told = outcome(ada_prompt_id, seed, ada_step, graded=False)
        if told["reward"] is None:
            raise TimeoutError(told["failed"])
        drawn = world.respond(int(ada_prompt_id[1:]), seed, ada_step, graded=False)
        return AgentLoopOutput(
            prompt_ids=list(world.prompt_tokens(int(ada_prompt_id[1:]))), response_ids=list(drawn.token_ids),
            response_mask=[1] * len(drawn.token_ids), response_logprobs=list(drawn.logprobs),
            reward_score=told["reward"], num_turns=2, metrics={}, extra_fields={"reward_extra_info": {}},
        )  # fmt: skip


def world_settings() -> Any:
    from ada_lightning.core.step_records import StepSettings

    return StepSettings(seed=world.RUN_SEED)


@cache
def composed(words: tuple[str, ...]) -> Any:
    """Return verl's own configuration with these overrides."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=list(words))


def config_of(folder: Any, words: list[str], **changes: Any) -> Any:
    """verl's own configuration with these overrides, and a training set of the world's prompts."""
    file = folder / "train.parquet"
    if not file.exists():
        rows = [
            {"name": name, "prompt": [{"role": "user", "content": text}], "data_source": "world"}
            for name, text in PROMPTS.items()
        ]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    config = deepcopy(composed(tuple(words)))
    values = {
        "data.train_files": str(file), "data.val_files": str(file), "data.filter_overlong_prompts": False,
        "data.cache_dir": str(folder), "data.train_batch_size": world.PROMPTS_PER_STEP, "data.val_batch_size": 4,
        "data.max_response_length": world.MAX_NEW_TOKENS, "data.seed": world.RUN_SEED,
        "actor_rollout_ref.actor.ppo_mini_batch_size": world.PROMPTS_PER_STEP, "actor_rollout_ref.model.path": None,
        "actor_rollout_ref.rollout.custom.ada.id_column": "name",
        "actor_rollout_ref.rollout.agent.default_agent_loop": "scripted",
        "trainer.default_local_dir": str(folder / "checkpoints"),
    }  # fmt: skip
    for key, value in (values | changes).items():
        OmegaConf.update(config, key, value, force_add=True)
    return config


def worker_of(config: Any, cls: type) -> Any:
    """verl's worker without servers."""
    made = object.__new__(cls)
    made.config, made.tools, made.distillation_enabled = config, [], False
    made.llm_client = made.processor = made.hf_model_type = made.dataset_cls = made.reward_loop_worker_handles = None
    made.tokenizer, made.model_config = SimpleNamespace(eos_token_id=99), SimpleNamespace(generation_config=None)
    made.background_tasks = set()
    if hasattr(made, "prepare"):
        made.prepare(config)
    return made


class InThisProcess:
    """The agent-loop manager: all prompts by one worker, to their end."""

    def __init__(self, config: Any, cls: type) -> None:
        self.worker = worker_of(config, cls)
        self.limit_s = None
        self.asked: list[str] = []
        """Prompts of the last step, by what they say, in the order of their slots."""
        self.drawn: list[int] = []
        """Sessions that each of them was drawn in."""

    def generate_sequences(self, batch: Any) -> None:
        """Draw a step."""
        Scripted.begun.clear()
        self._draw(batch)
        columns = (
            [getattr(each, "data", each) for each in batch[name]] for name in ("ada_slot", "ada_step", "raw_prompt")
        )
        rows = sorted(zip(*columns, strict=True), key=lambda row: int(row[0]))
        ids = {text: prompt_id for prompt_id, text in PROMPTS.items()}
        self.asked = [ids[messages[-1]["content"]] for _, _, messages in rows]
        self.drawn = [Scripted.begun[int(step), int(slot)] for slot, step, _ in rows]

    def _draw(self, batch: Any) -> None:
        async def run() -> None:
            await self.worker.generate_sequences(batch)
            tasks = list(self.worker.background_tasks)
            _, hanging = await asyncio.wait(tasks, timeout=self.limit_s)
            for task in hanging:  # as with the worker's process
                task.cancel()

        asyncio.run(run())


def trainer_of(config: Any, manager: Any = None) -> Any:
    """verl's synchronous trainer, as far as its ``__init__`` and ``_setup`` make it without servers."""
    trainer = PPOTrainerSync(config)
    trainer.tokenizer, trainer.processor = SimpleNamespace(eos_token_id=99), None
    trainer.global_steps = 1
    trainer.actor_rollout_wg = SimpleNamespace(
        _dispatch_info={"actor": [0]}, save_checkpoint=lambda *a, **k: None, load_checkpoint=lambda **k: None
    )
    trainer.replay_buffer.poll_interval = 0.01
    trainer._init_dataloader()
    trainer.agent_loop_manager = manager or InThisProcess(config, Worker)
    return trainer


def play(trainer: Any, tq: Any) -> Played:
    """Run one step of verl up to its loss; return what its update would follow."""
    metrics: dict[str, Any] = {}
    trainer.prepare_step()
    given, figures = trainer.replay_buffer.sample(
        global_steps=trainer.global_steps, partition_id="train", batch_size=trainer.config.data.train_batch_size
    )
    batch = trainer._balance_batch(given, metrics=metrics)
    # The actor's part of the step: its log-probabilities are those of the engine, so the policy is the one that drew.
    own = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["rollout_log_probs"])
    old = TensorDict({"old_log_probs": own["rollout_log_probs"]}, [len(batch)])
    tq.kv_batch_put(keys=batch.keys, partition_id="train", fields=old)
    trainer._compute_advantage(batch, metrics=metrics)
    manager = trainer.agent_loop_manager
    is_here = isinstance(manager, InThisProcess)  # others have their sessions in processes of their own
    played = Played(list(manager.asked), list(manager.drawn)) if is_here else Played([], [])
    fields = ["ada_slot", "ada_prompt_id", "session_id"]
    told = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["advantages", "response_mask"])
    rows = list(zip(batch.keys, told["advantages"].unbind(), told["response_mask"].unbind(), strict=True))
    for key, advantages, mask in rows:
        logprobs = torch.zeros(len(mask), requires_grad=True)
        agg_loss(
            -(advantages * logprobs)[None], mask[None], trainer.config.actor_rollout_ref.actor.loss_agg_mode
        ).backward()
        (weight,) = set((-logprobs.grad)[mask > 0].tolist()) or {0.0}
        if weight:
            own = tq.kv_batch_get(keys=[key], partition_id="train", select_fields=fields)
            slot, _, session = (getattr(own[name][0], "data", own[name][0]) for name in fields)
            played.weights[f"{int(slot)}/{int(session)}"] = weight
    multiple = trainer._get_required_batch_multiple(1)
    assert len(batch) == multiple  # one update, however many rows
    played.figures = figures
    tq.kv_clear(keys=batch.keys, partition_id="train")
    left = tq.kv_list().get("train") or {}
    assert not left, left
    trainer.global_steps += 1
    return played


def use(monkeypatch: Any, queue: Any) -> Any:
    """Put a queue in the place of verl's everywhere."""
    for module in MODULES:
        monkeypatch.setattr(module, "tq", queue)
    monkeypatch.setattr(worker, "transfer_queue", queue)
    monkeypatch.setattr(buffer, "transfer_queue", queue)
    monkeypatch.setitem(agent_loop._agent_loop_registry, "scripted", {"_target_": f"{__name__}.Scripted"})
    return queue
