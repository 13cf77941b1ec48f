"""What dropping by age does to slow prompts in asynchronous trainers.

``python -m research.benchmarks.age_limits --package FOLDER [FOLDER ...]``. Half of the prompts take 1 tick and half 20,
and an update takes 4. Each update takes 8 prompts of 2 responses. TRL's own queue of rows (``RolloutQueueDataset``) and
prime-rl's own dispatcher and sink decide what is too old. Ours stands beside them: on TRL's queue, a step begins when
the policy is new enough, and all of its rows train. The speeds are invented, so only the direction is evidence.

The folders hold verifiers, prime-rl and what they need: ``docs/prime_rl.md`` has the commands. Without one, TRL's part
alone is run, and nothing is written. Writes ``docs/studies/age_limits.json``; ``python -m research.benchmarks.tables``
makes the table of it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import queue
import random
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from research.benchmarks.report import DOCS, save

BATCH, GROUP = 8, 2
SLOW_TICKS, UPDATE_TICKS = 20, 4
STEPS = 300


def main() -> None:
    """Simulate, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, nargs="*", default=[], help="folders with prime-rl and what it needs")
    parser.add_argument("--steps", type=int, default=STEPS, help="updates of each trainer")
    options = parser.parse_args()
    sys.path += [str(folder.resolve()) for folder in options.package]
    logging.disable(logging.WARNING)
    rows = [{"mode": f"TRL, `max_staleness={age}`"} | trl(age, options.steps) for age in (4, 3, 2, 1)]
    rows += [{"mode": f"TRL with a memory, `open_steps={age + 1}`"} | ours(age + 1, options.steps) for age in (4, 1)]
    if options.package:
        rows += [
            {"mode": f"prime-rl, `max_off_policy_steps={age}`"} | prime(age, options.steps) for age in (8, 4, 3, 2)
        ]
    for row in rows:
        print(row, flush=True)
    if options.package:
        print(save("age_limits", folder=DOCS / "studies", module="age_limits", rows=rows))


def _shares(drawn: list[bool], trained: list[bool], dropped: int) -> dict[str, Any]:
    def share(kinds: list[bool]) -> float:
        return sum(kinds) / max(len(kinds), 1)

    return {"drawn": len(drawn), "slow_drawn": share(drawn), "slow_trained": share(trained), "dropped": dropped}


class Rollouts:
    """TRL's rollout process, in ticks: as many prompts as may be in flight, each a while; its queue of rows."""

    def __init__(self, in_flight: int) -> None:
        self.generator, self.in_flight, self.version = random.Random(1), in_flight, 1
        self.now = 0
        self.flying: list[tuple[int, int, bool, int]] = []
        self.rows: list[Any] = []
        self.drawn: list[bool] = []

    def begin(self) -> None:
        """Fill the places in flight."""
        while len(self.flying) < self.in_flight:
            is_slow = self.generator.random() < 0.5
            self.drawn.append(is_slow)
            end = self.now + (SLOW_TICKS if is_slow else 1)
            self.flying.append((end, self.version, is_slow, len(self.drawn)))

    def tick(self) -> None:
        """Let a tick pass."""
        self.begin()
        self.now += 1
        for group in sorted(group for group in self.flying if group[0] <= self.now):
            self.flying.remove(group)
            self.rows += [self.row(version=group[1], is_slow=group[2], group_id=group[3]) for _ in range(GROUP)]

    def row(self, *, version: int, is_slow: bool, group_id: int) -> Any:
        """Return what TRL's queue looks at."""
        return SimpleNamespace(
            model_version=version, group_id=group_id, enqueued_at=None, metrics={"slow": float(is_slow)},
            input_ids=None, completion_mask=None, old_log_probs=None, advantage=1.0,
        )  # fmt: skip

    def get(self, timeout: float) -> Any:
        """As a queue, whose timeout is a tick."""
        if not self.rows:
            self.tick()
            raise queue.Empty
        return self.rows.pop(0)

    def qsize(self) -> int:
        """Return how many rows wait."""
        return len(self.rows)


def _train_trl(rollouts: Rollouts, max_staleness: int, steps: int) -> dict[str, Any]:
    from accelerate.state import PartialState
    from trl.experimental.async_grpo.async_grpo_trainer import RolloutQueueDataset

    PartialState(cpu=True)  # TRL's log asks for it
    metrics: Any = defaultdict(list)
    rows = iter(RolloutQueueDataset(rollouts, lambda: rollouts.version, lambda *_: None, 0, metrics, max_staleness))
    trained: list[bool] = []
    dropped = 0
    for _ in range(steps):
        trained += [bool(next(rows)["metrics"]["slow"]) for _ in range(BATCH * GROUP)]
        for _ in range(UPDATE_TICKS):
            rollouts.tick()
        rollouts.version += 1
        dropped = len(metrics["sample/dropped_stale_total"])
    return _shares(rollouts.drawn, trained, dropped)


def trl(max_staleness: int, steps: int) -> dict[str, Any]:
    """Train on what TRL's own queue gives; by its own default so many rows are in flight."""
    return _train_trl(Rollouts(max_staleness * BATCH), max_staleness, steps)


class Paced(Rollouts):
    """Ours: prompts of a brain's steps, whose rows come once a step is whole."""

    def __init__(self, open_steps: int) -> None:
        from ada_lightning.adapters import Brain

        super().__init__((open_steps - 1) * BATCH)
        self.open_steps = open_steps
        names = [f"p{number}" for number in range(50 * BATCH)]
        self.brain = Brain("grpo", names, num_prompts=BATCH, max_tokens=8, group_size=GROUP, open_steps=open_steps)
        self.slow: dict[str, bool] = {}
        self.ending: list[tuple[int, Any, int]] = []

    def begin(self) -> None:
        """Fill the places in flight, as far as the policy is new enough."""
        before = self.version - 1 + self.open_steps
        while len(self.ending) < self.in_flight and (handout := self.brain.hand_out(before=before)) is not None:
            is_slow = self.slow.setdefault(handout.prompt_id, self.generator.random() < 0.5)
            self.drawn.append(is_slow)
            self.ending.append((self.now + (SLOW_TICKS if is_slow else 1), handout, self.version))

    def tick(self) -> None:
        """Let a tick pass; the rows of a whole step are there at once."""
        self.begin()
        self.now += 1
        for place in [each for each in self.ending if each[0] <= self.now]:
            self.ending.remove(place)
            _, handout, version = place
            results = {
                index: {"reward": float(index % 2), "num_tokens": 1, "payload": version} for index in handout.indices
            }
            self.brain.add(handout.step, handout.slot, results)
        while (finished := self.brain.finish()) is not None:
            self.rows += [
                self.row(version=row.payload, is_slow=self.slow[row.prompt_id], group_id=row.slot)
                for row in finished.rows
            ]


def ours(open_steps: int, steps: int) -> dict[str, Any]:
    """Train on what ours puts into TRL's own queue."""
    return _train_trl(Paced(open_steps), open_steps - 1, steps)


class Clock:
    """Wakes who waits for a tick."""

    def __init__(self) -> None:
        self.now = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def sleep(self, ticks: int) -> None:
        """Wait."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((self.now + ticks, future))
        await future

    async def tick(self) -> None:
        """Let a tick pass."""
        self.now += 1
        for end, future in self._waiting:
            if end <= self.now and not future.done():
                future.set_result(None)
        self._waiting = [(end, future) for end, future in self._waiting if not future.done()]
        for _ in range(3):
            await asyncio.sleep(0)


def prime(max_off_policy_steps: int, steps: int) -> dict[str, Any]:
    """Train on what prime-rl's own dispatcher and sink let through."""
    from prime_rl.utils.logger import setup_logger

    setup_logger("error")  # it warns of every group that it drops, which is what happens here
    return asyncio.run(PrimeRl(max_off_policy_steps).run(steps))


class PrimeRl:
    """The middle of prime-rl's orchestrator: its own dispatcher and sink, and a trainer that takes 4 ticks.

    Args:
        age: ``max_off_policy_steps``.
    """

    def __init__(self, age: int) -> None:
        from prime_rl.orchestrator.dispatcher import Dispatcher
        from prime_rl.orchestrator.train_sink import TrainSink
        from prime_rl.orchestrator.types import Policy, Progress

        self.clock, self.generator = Clock(), random.Random(1)
        self.drawn: list[bool] = []
        self.trained: list[bool] = []
        self.batches: list[Any] = []
        self.dropped = self.done = 0
        nothing = lambda *_: asyncio.sleep(0)  # noqa: E731
        algorithm = SimpleNamespace(finalize_episode=nothing, finalize_group=nothing, action_loss_type="rl")
        source = SimpleNamespace(uses_live_policy=True, pool=SimpleNamespace(train_client=None))
        env = SimpleNamespace(
            name="tasks", run=self._respond, algorithm=algorithm, generation_source=source,
            sampling_args={"temperature": 1.0}, config=SimpleNamespace(group_size=GROUP),
        )  # fmt: skip
        envs = type("Envs", (), {"get": lambda self, name: env, "__iter__": lambda self: iter([env])})()
        self.progress, self.policy = Progress(), Policy()
        train = SimpleNamespace(filter_zero_advantages=False)
        self.sink = TrainSink(
            SimpleNamespace(max_off_policy_steps=age, seq_len=8, train=train), tokenizer=None, train_envs=envs,
            mm_token_type_ids_mapping=None, progress=self.progress, batch_size=BATCH * GROUP, token_batch_size=None,
        )  # fmt: skip
        self.dispatcher = Dispatcher(
            train_envs=envs, eval_envs=None, train_source=SimpleNamespace(next_task=self._next_task), eval_source=None,
            policy_pool=None, policy=self.policy, progress=self.progress, initial_max_inflight=4 * BATCH * GROUP,
            max_inflight_ceiling=None, tasks_per_minute=None, max_off_policy_steps=age, run_id="r", run_name=None,
        )  # fmt: skip

    async def run(self, steps: int) -> dict[str, Any]:
        """Collect so many batches."""
        while self.progress.step <= steps:
            while self.dispatcher.available_permits > 0:
                await self.dispatcher.try_schedule("train")
            await self._pass_time()
            for task in [each for each in self.dispatcher.inflight if each.done()]:
                await self.dispatcher.handle_completed_episode(task)
            while not self.dispatcher.out_q.empty():
                await self._take(self.dispatcher.out_q.get_nowait())
            self.dropped, self.sink.stale_drops = self.dropped + self.sink.stale_drops, 0
        await self.dispatcher.cancel_inflight_episodes()
        return _shares(self.drawn, self.trained, self.dropped)

    async def _take(self, result: Any) -> None:
        from prime_rl.orchestrator.types import GroupCancellation

        is_lost = isinstance(result, GroupCancellation)
        self.dropped += result.count if is_lost else 0
        batch = await (self.sink.cancel(result) if is_lost else self.sink.add(result))
        if batch is not None:
            self.batches.append(batch)
            self.progress.step += 1
        while len(self.batches) > 1:  # prime-rl ships no batch more than one ahead of the trainer
            await self._pass_time()

    async def _pass_time(self) -> None:
        """Let a tick pass; the trainer takes the next batch when it has none, and publishes its weights at the end."""
        await self.clock.tick()
        if self.batches and not self.done:
            self.done = self.clock.now + UPDATE_TICKS
        if self.done and self.clock.now >= self.done:
            episodes = self.batches.pop(0).cohort.episodes
            self.trained += [trace.task.data.name.startswith("slow") for each in episodes for trace in each.traces]
            await self.dispatcher.on_version_pending(self.policy.version + 1)
            self.policy.version, self.done = self.policy.version + 1, 0

    def _next_task(self, *, step: int) -> Any:
        import verifiers.v1 as vf
        from prime_rl.orchestrator.types import TaskRequest

        self.drawn.append(self.generator.random() < 0.5)
        name = f"{'slow' if self.drawn[-1] else 'quick'} {len(self.drawn)}"
        return TaskRequest("tasks", vf.Task(vf.WireTaskData(name=name, prompt="?")), step)

    async def _respond(self, client: Any, model_name: str, cache_salt: Any, task_data: dict[str, Any]) -> Any:
        import verifiers.v1 as vf

        await self.clock.sleep(SLOW_TICKS if task_data["name"].startswith("slow") else 1)
        data = vf.WireTaskData(name=task_data["name"], prompt="?")
        known = vf.Task(data)
        task = vf.TraceTask(type="Task", data=data, key=known.key, hash=known.hash)
        said = vf.AssistantMessage(content="!")
        node = vf.MessageNode(message=said, sampled=True, token_ids=[1, 2], mask=[True, True], logprobs=[-1.0, -1.0])
        trace = vf.WireTrace(task=task, agent={"config": {}}, nodes=[node], ok=True, is_completed=True)
        return vf.WireEpisode(task=task, traces=[trace], ok=True)


if __name__ == "__main__":
    main()
