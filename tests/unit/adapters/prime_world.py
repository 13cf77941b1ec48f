"""prime-rl's own dispatcher, sink, training source and algorithm, with environments of the scripted policy."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import verifiers.v1 as vf
from prime_rl.configs.algorithm import GRPOAlgoConfig
from prime_rl.orchestrator.algo.grpo import GRPOAlgorithm
from prime_rl.orchestrator.dispatcher import Dispatcher
from prime_rl.orchestrator.train_sink import TrainSink
from prime_rl.orchestrator.types import GroupCancellation, Policy, Progress

from ada_lightning.adapters.prime_rl.settings import read_settings
from ada_lightning.adapters.prime_rl.source import source_class
from tests.tapes import world

GROUP = 4


class Task(vf.Task):
    """A prompt of the scripted policy."""

    @property
    def key(self) -> str:
        return str(self.data.name)


TASKS = [Task(vf.WireTaskData(name=f"p{number}", prompt=text)) for number, text in enumerate(world.TEXTS)]


class Env:
    """What the orchestrator sees of a training environment: one response an episode, by the scripted policy."""

    def __init__(self, source: Any) -> None:
        self.name, self.config = "tasks", source
        self.tasks, self.num_tasks = iter(TASKS), len(TASKS)
        self.algorithm = GRPOAlgorithm(GRPOAlgoConfig(), None)
        self.generation_source = SimpleNamespace(uses_live_policy=True, pool=SimpleNamespace(train_client=object()))
        self.sampling_args = {"temperature": 1.0}
        self.order = random.Random(4)
        self.handouts: dict[str, list[list[Any]]] = {}
        """By task, of each group: its handout, and how many of its episodes have begun."""
        self.fails = self.hangs = ""

    async def run(self, client: Any, model_name: str, cache_salt: Any, task_data: dict[str, Any]) -> vf.WireEpisode:
        key = task_data["name"]
        group = next(each for each in self.handouts[key] if each[1] < GROUP)
        (handout, index), group[1] = group, group[1] + 1
        for _ in range(self.order.randrange(8)):
            await asyncio.sleep(0)
        if key == self.hangs:
            await asyncio.sleep(3600)
        if key == self.fails:
            raise TimeoutError("the environment is gone")
        return episode_of(key, handout, index)


def episode_of(key: str, handout: Any, index: int) -> vf.WireEpisode:
    """The response of the scripted policy at a place in the launch order, graded."""
    drawn = world.respond(int(key[1:]), handout.seeds[index], handout.step, graded=False)
    verdict = world.grade(world.text_of(drawn.token_ids))
    ids = list(drawn.token_ids)
    task = vf.TraceTask(type="Task", data=vf.WireTaskData(name=key, prompt="?"), key=key, hash=_hash(key))
    nodes = [
        vf.MessageNode(message=vf.UserMessage(content="?"), token_ids=[1], mask=[False]),
        vf.MessageNode(
            parent=0, message=vf.AssistantMessage(content="!"), sampled=True, token_ids=ids, mask=[True] * len(ids),
            logprobs=list(drawn.logprobs),
        ),
    ]  # fmt: skip
    is_ok = verdict.reward is not None
    trace = vf.WireTrace(
        task=task, agent={"config": {}}, nodes=nodes, ok=is_ok, is_completed=True,
        info={"place": f"{handout.slot}/{index}", "step": handout.step},
        errors=[] if is_ok else [vf.Error(type="Grader", message=verdict.failure, traceback="")],
    )  # fmt: skip
    if is_ok:
        trace.record_reward("right", float(verdict.reward))
    return vf.WireEpisode(task=task, traces=[trace], ok=is_ok)


def _hash(key: str) -> str:
    return next(task.hash for task in TASKS if task.key == key)


class Envs:
    """Of one environment."""

    def __init__(self, env: Env) -> None:
        self._env = env

    def get(self, name: str) -> Env:
        return self._env

    def __iter__(self) -> Any:
        return iter([self._env])


def config_of(**changes: Any) -> Any:
    """What is looked at of the orchestrator's configuration."""
    source = {"resolved_name": "tasks", "group_size": GROUP, "curriculum": None, "algo": None, "ratio": 1.0} | changes
    return SimpleNamespace(
        train=SimpleNamespace(source=[SimpleNamespace(**source)], filter_zero_advantages=True),
        max_off_policy_steps=8,
        seq_len=64,
    )


class Orchestrator:
    """The middle of prime-rl's orchestrator: dispatcher, sink and source, with its step and the policy's version."""

    def __init__(self, text: str, *, batch_size: int = 10**6, max_inflight: int = 1000, max_off_policy_steps: int = 8):
        self.config = config_of()
        self.config.max_off_policy_steps = max_off_policy_steps
        self.env = Env(self.config.train.source[0])
        envs = Envs(self.env)
        self.source = source_class(read_settings(self.config, text), max_off_policy_steps)(envs)
        (self.sampler,) = self.source.adaptive
        self.progress, self.policy = Progress(), Policy(model_name="m")
        self.sink = TrainSink(
            self.config, tokenizer=None, train_envs=envs, mm_token_type_ids_mapping=None, progress=self.progress,
            batch_size=batch_size, token_batch_size=None, on_result=self.source.on_result,
        )  # fmt: skip
        self.dispatcher = Dispatcher(
            train_envs=envs, eval_envs=None, train_source=self.source, eval_source=None, policy_pool=None,
            policy=self.policy, progress=self.progress, initial_max_inflight=max_inflight, max_inflight_ceiling=None,
            tasks_per_minute=None, max_off_policy_steps=max_off_policy_steps, run_id="r", run_name=None,
        )  # fmt: skip
        self.dispatcher.min_burst = 10**6
        self.weights: dict[int, dict[str, float]] = {}
        """Advantages of what was queued for training, by step of the method and ``slot/index``."""

    async def begin(self, number: int) -> None:
        """Open groups for so many tasks, and begin all of their episodes."""
        for _ in range(number):
            before = {key: len(visits) for key, visits in self.sampler._flying.items()}
            await self.dispatcher.try_schedule("train")
            ((key, visits),) = [(k, v) for k, v in self.sampler._flying.items() if len(v) > before.get(k, 0)]
            self.env.handouts.setdefault(key, []).append([visits[-1][1], 0])
            for _ in range(GROUP - 1):
                await self.dispatcher.try_schedule("train")

    async def deliver(self, *, until: int = 0) -> None:
        """Let episodes come in, as they finish, until so many are in flight."""
        while len(self.dispatcher.inflight) > until:
            done, _ = await asyncio.wait(self.dispatcher.inflight, return_when=asyncio.FIRST_COMPLETED, timeout=5)
            for task in done:
                await self.dispatcher.handle_completed_episode(task)
            await self.drain()

    async def drain(self) -> None:
        """Hand what the dispatcher has put out to the sink."""
        while not self.dispatcher.out_q.empty():
            result = self.dispatcher.out_q.get_nowait()
            if isinstance(result, GroupCancellation):
                await self.sink.cancel(result)
            else:
                await self.sink.add(result)
        for trace_id, samples in self.sink.pending_batch.items():
            trace = self.sink._trace(trace_id)
            (value,) = {v for v, trains in zip(samples[0].advantages, samples[0].mask, strict=True) if trains}
            if value:
                self.weights.setdefault(trace.info["step"], {})[trace.info["place"]] = value
