"""What verl's modes do to slow prompts, and what a memory costs there.

``python -m research.benchmarks.verl_memory --package FOLDER`` measures it. verl stands in a folder of its own, which
comes behind everything that is installed, since its wheel has packages called ``tests`` and ``scripts``.
``docs/verl.md`` has the command that makes it.

**Slow prompts.** verl's own replay buffers, and ours, on a stand-in for their queue with a clock of its own. Half of
the prompts take 1 tick and half 20, and independently half of the groups have a signal. An update of the asynchronous
trainer takes 4 ticks. Its warm-up has three batches. The speeds are invented, so only the direction is evidence.

**Cost.** Processor time of verl's driver for a step of a memory, everything of ours included: the prompts chosen and
handed out, the rewards read from the stand-in and told, the weights written. Writes ``docs/studies/verl/memory.json``;
``python -m research.benchmarks.tables`` makes the tables of it.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from research.benchmarks.report import DOCS, save

BATCH = 8
SLOW_TICKS = 20
UPDATE_TICKS = 4
WARM_UP_BATCHES = 3
STEPS = 400
LENGTH = 64
"""Tokens of a response where costs are measured."""
SIZES = ((512, 8), (4096, 16))
"""Prompts of a step, and responses of a prompt."""


@dataclass
class Asked:
    """A prompt in the queue."""

    end: int
    """Tick at which its responses are there."""
    is_slow: bool
    has_signal: bool
    step: int
    columns: dict[str, Any] = field(default_factory=dict)
    """Of its row in the data set."""
    length: int = 1
    num_rows: int = 2


class Queue:
    """A stand-in for TransferQueue: what its replay buffers call. Time is in ticks, and one poll is one tick."""

    def __init__(self, seed: int = 1) -> None:
        self.generator = random.Random(seed)
        self.now = self.step = 0
        self.asked: dict[str, Asked] = {}
        self.all: dict[str, Asked] = {}
        self.kept: dict[str, float] = {}
        self.cleared: set[str] = set()

    def ask(self, number: int) -> int:
        """Let so many new prompts be drawn: ``refill_fn`` of the trainer."""
        for _ in range(number):
            uid = str(uuid.UUID(int=self.generator.getrandbits(128), version=4))
            is_slow, has_signal = self.generator.random() < 0.5, self.generator.random() < 0.5
            self.put(uid, Asked(self.now + (SLOW_TICKS if is_slow else 1), is_slow, has_signal, self.step))
        return number

    def put(self, uid: str, asked: Asked) -> None:
        """Let a prompt be drawn."""
        self.asked[uid] = self.all[uid] = asked

    def kv_list(self, *_: Any) -> dict[str, dict[str, Any]]:
        """Status of every prompt, and the rows of those that are done."""
        found: dict[str, dict[str, Any]] = {}
        for uid, asked in self.asked.items():
            is_done = asked.end <= self.now
            status = "finished" if is_done else "running"
            found[uid] = {"is_prompt": True, "status": status, "global_steps": asked.step}
            for session in range(asked.num_rows if is_done else 0):
                if (key := f"{uid}_{session}_0") not in self.cleared:
                    found[key] = {"status": "success", "seq_len": asked.length + 1}
        return {"train": found}

    def kv_clear(self, keys: Any, partition_id: str) -> None:
        """Take keys out."""
        for key in keys:
            self.asked.pop(key, None)
            self.cleared.add(key)

    def kv_batch_get(self, keys: Any, partition_id: str, select_fields: Any) -> dict[str, Any]:
        """Columns of rows, as the queue has them."""
        import torch

        places = [(self.all[uid], int(session)) for uid, session, _ in (key.split("_") for key in keys)]
        ends = torch.tensor([0, *itertools.accumulate(asked.length for asked, _ in places)])
        rewards = torch.zeros(int(ends[-1]))
        own = [float(session % 2 if asked.has_signal else 1) for asked, session in places]
        rewards[ends[1:] - 1] = torch.tensor(own)
        ragged = torch.nested.nested_tensor_from_jagged
        found: dict[str, Any] = {"rm_scores": ragged(rewards, ends), "responses": ragged(rewards, ends)}
        found["response_mask"] = ragged(torch.ones_like(rewards), ends)
        columns = [name for name in select_fields if name not in found]
        return found | {name: [asked.columns[name] for asked, _ in places] for name in columns}

    def kv_batch_put(self, keys: Any, partition_id: str, fields: Any) -> None:
        """Take the weights."""
        scores = fields["rm_scores"]
        last = scores.values()[scores.offsets()[1:] - 1].tolist()
        self.kept |= dict(zip(keys, last, strict=True))


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, required=True, help="folder with verl and what it needs")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each mode")
    parser.add_argument("--no-cost", action="store_true", help="leave the processor times out")
    options = parser.parse_args()
    if not (options.package / "verl").is_dir():
        sys.exit(f"error: {options.package} has no verl; docs/verl.md has the command that makes it")
    sys.path.append(str(options.package.resolve()))
    import logging

    logging.disable(logging.INFO)
    rows = slow_prompts(options.steps)
    for row in rows:
        print(row, flush=True)
    costs = [] if options.no_cost else [cost(*size) for size in SIZES]
    print(save("memory", folder=DOCS / "studies" / "verl", module="verl_memory", rows=rows, costs=costs))


def slow_prompts(steps: int) -> list[dict[str, Any]]:
    """Return the share of slow prompts among those drawn and those that train, by mode."""
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

    filtering = {
        "filter_groups_metric": "reward", "train_batch_size": BATCH, "gen_batch_size": 1,
        "max_off_policy_threshold": 8, "max_off_policy_strategy": "drop",
    }  # fmt: skip
    rows = [{"mode": "verl, synchronous, `filter_groups`"} | _verl(ReplayBuffer, "sync", steps, **filtering)]
    for strategy, threshold in (("drop", 8), ("drop", 4), ("drop", 3), ("wait", 8), ("wait", 3)):
        given = {"max_off_policy_threshold": threshold, "max_off_policy_strategy": strategy}
        mode = f"verl, asynchronous, `{strategy}` at {threshold}"
        rows.append({"mode": mode} | _verl(ReplayBufferAsync, "separate_async", steps, **given))
    ours = [{"mode": f"with a memory, synchronous, `{method}`"} | _ours(method, steps) for method in ("grpo", "ada")]
    return rows + ours


def _shares(queue: Queue, trained: list[bool], thrown: int) -> dict[str, Any]:
    drawn = [asked.is_slow for asked in queue.all.values()]
    return {
        "drawn": len(drawn),
        "slow_drawn": statistics.fmean(drawn),
        "trained": len(trained),
        "slow_trained": statistics.fmean(trained),
        "thrown_away": thrown,
    }


def _on_its_clock(queue: Queue) -> None:
    """Let verl's replay buffers see this queue, and wait by its clock."""
    import verl.trainer.ppo.v1.replay_buffer as theirs

    from ada_lightning.adapters.verl import buffer as ours

    def sleep(seconds: float) -> None:
        queue.now += 1

    clock = SimpleNamespace(time=lambda: 0.0, sleep=sleep)
    theirs.tq = ours.transfer_queue = queue
    theirs.time = ours.time = clock  # type: ignore[assignment]
    plain = lambda partition_id, keys, tags: SimpleNamespace(keys=keys, tags=tags)  # noqa: E731
    theirs.KVBatchMeta = ours.KVBatchMeta = plain


def _verl(cls: Any, mode: str, steps: int, **options: Any) -> dict[str, Any]:
    """Train on what one of verl's own replay buffers gives."""
    queue = Queue()
    _on_its_clock(queue)
    buffer = cls(trainer_mode=mode, trainer_config={}, sampler_kwargs={}, refill_fn=queue.ask, **options)
    is_async = mode != "sync"
    trained: list[bool] = []
    thrown = 0
    queue.step = 1
    queue.ask(WARM_UP_BATCHES * BATCH if is_async else 0)
    for step in range(1, steps + 1):
        queue.step = step
        queue.ask(BATCH)
        batch, figures = buffer.sample(step, "train", BATCH)
        queue.now += UPDATE_TICKS if is_async else 0
        uids = {key.split("_")[0] for key in batch.keys}
        trained += [queue.all[uid].is_slow for uid in uids]
        queue.kv_clear([*uids, *batch.keys], "train")
        names = ("off_policy/evicted_samples", "filter_groups/discarded_surplus_samples")
        thrown += int(sum(figures.get(f"training/{name}", 0) for name in names))
    return _shares(queue, trained, thrown)


def _memory_of(method: str, *, num_prompts: int, known: int, group_size: int, queue: Queue) -> Any:
    """Our replay buffer with a brain, for a trainer of so many prompts a step."""
    from omegaconf import OmegaConf

    from ada_lightning.adapters import Brain
    from ada_lightning.adapters.verl.arguments import SHARED
    from ada_lightning.adapters.verl.buffer import AdaReplayBuffer

    ada = {"method": method, "group_size": group_size}
    config: dict[str, Any] = {
        "data": {
            "train_batch_size": num_prompts,
            "max_response_length": 2 * LENGTH,
            "dataloader_num_workers": 0,
        },
        "trainer": {"v1": {"trainer_mode": "sync"}},
        "actor_rollout_ref": {"rollout": {"custom": {"ada": ada}}},
    }
    given = OmegaConf.create(config)
    for key, (path, name) in SHARED.items():
        OmegaConf.update(given, key, {"path": path, "name": name}, force_add=True)
    trainer = SimpleNamespace(config=given)
    refill = type("Refill", (), {"__self__": trainer, "__call__": lambda self, number: queue.ask(number)})()
    buffer = AdaReplayBuffer(
        trainer_mode="sync", trainer_config={}, sampler_kwargs={}, refill_fn=refill, max_off_policy_threshold=8,
        max_off_policy_strategy="drop",
    )  # fmt: skip
    names = [f"p{number}" for number in range(known)]
    buffer.memory.brain = Brain(method, names, num_prompts=num_prompts, max_tokens=2 * LENGTH, group_size=group_size)
    return buffer


def _ours(method: str, steps: int) -> dict[str, Any]:
    """Train on what ours gives. Whether a prompt is slow, and whether it has a signal, is the prompt's own."""
    queue = Queue()
    _on_its_clock(queue)
    buffer = _memory_of(method, num_prompts=BATCH, known=50 * BATCH, group_size=2, queue=queue)
    kinds: dict[str, tuple[bool, bool]] = {}
    trained: list[bool] = []
    for step in range(1, steps + 1):
        for handout in buffer.memory.brain.choose():
            flip = lambda: queue.generator.random() < 0.5  # noqa: E731
            is_slow, has_signal = kinds.setdefault(handout.prompt_id, (flip(), flip()))
            columns = {"ada_step": handout.step, "ada_slot": handout.slot}
            asked = Asked(queue.now + (SLOW_TICKS if is_slow else 1), is_slow, has_signal, step, columns)
            queue.put(f"{step}-{handout.slot}", asked)
        buffer.memory.step = step - 1
        batch, _ = buffer.sample(step, "train", BATCH)
        uids = {key.split("_")[0] for key in batch.keys if queue.kept[key]}
        trained += [queue.all[uid].is_slow for uid in uids]
        queue.kv_clear([*uids, *batch.keys], "train")
    return _shares(queue, trained, 0)


def cost(num_prompts: int, group_size: int, method: str = "ada", steps: int = 4) -> dict[str, Any]:
    """Return milliseconds of processor time of the driver for a step, the median of some."""
    queue = Queue()
    _on_its_clock(queue)
    buffer = _memory_of(method, num_prompts=num_prompts, known=20 * num_prompts, group_size=group_size, queue=queue)
    times: list[tuple[float, float, float]] = []
    for step in range(1, steps + 1):
        begun = time.process_time()
        handouts = buffer.memory.brain.choose()
        chosen = time.process_time()
        for handout in handouts:
            columns = {"ada_step": handout.step, "ada_slot": handout.slot}
            asked = Asked(queue.now, False, handout.slot % 2 == 0, step, columns, LENGTH, group_size)
            queue.put(f"{step}-{handout.slot}", asked)
        buffer.memory.step = step - 1
        sampled = time.process_time()
        batch, _ = buffer.sample(step, "train", num_prompts)
        ended = time.process_time()
        state = buffer.memory.brain.state_dict()
        times.append((chosen - begun, ended - sampled, time.process_time() - ended))
        queue.kv_clear([*queue.asked, *batch.keys], "train")
        assert state["core"]["step"] == step
    parts = [1000 * statistics.median(part) for part in zip(*times, strict=True)]
    return {
        "prompts": num_prompts,
        "responses": group_size,
        "choose_ms": parts[0],
        "sample_ms": parts[1],
        "state_ms": parts[2],
    }


if __name__ == "__main__":
    main()
