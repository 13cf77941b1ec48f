"""What a memory costs verl's trainer: time of its thread and of the actor, and room for a million prompts.

``python -m research.benchmarks.verl_cost --package FOLDER`` measures it, with verl in a folder of its own as for
:mod:`research.benchmarks.verl_memory`. Ray must be able to start here.

**Trainer.** Processor time of the thread that calls ``sample``, for a step whose prompts become complete over
30 polls of the replay buffer, 2 s each with verl's defaults. Time of the stand-in for verl's queue, and of verl's own
reading of its keys at each poll, is taken off, and named apart.
*Behind the last* is the part after the poll that found the last prompt complete: the trainer waits for that part.

**Actor.** A rule that draws in blocks until the last two are wrong, or gives a prompt up by what earlier steps showed.
Each response is one call, as workers make them. A lone call is timed by the clock: it is what a block waits for.

**Room.** Resident memory of a process before and behind a brain with so many prompts of 200 characters.

Writes ``docs/studies/verl/cost.json``; ``python -m research.benchmarks.tables`` makes the tables of it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from research.benchmarks.report import DOCS, save
from research.benchmarks.verl_memory import MAX_TOKENS, Asked, Queue, find_verl, memory_of, on_its_clock

SIZES = ((512, 8), (4096, 16))
"""Prompts of a step, and responses of a prompt."""
LENGTH = 64
"""Tokens of a response."""
POLLS = 30
STEPS = 4
AT_ONCE = 512
"""Calls of the actor under way."""
NUM_PROMPTS = 1_000_000
_CALLS = ("kv_batch_get", "kv_batch_put", "kv_clear")


class TimedQueue(Queue):
    """The stand-in, which knows how much of the thread's time was its own, or of verl's reading of its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.own_s = 0.0
        """Seconds of processor time so far."""
        self.last = (0.0, 0.0)
        """Time of the thread at the last poll, and ``own_s`` then."""
        for name in _CALLS:
            setattr(self, name, self.timed(getattr(self, name)))

    def timed(self, call: Any) -> Any:
        """Return the call, whose time is then not ours."""

        def call_and_count(*given: Any, **named: Any) -> Any:
            begun = time.thread_time()
            try:
                return call(*given, **named)
            finally:
                self.own_s += time.thread_time() - begun

        return call_and_count

    def kv_list(self, *given: Any) -> Any:
        """Note that a poll begins."""
        self.last = (time.thread_time(), self.own_s)
        return super().kv_list(*given)


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, required=True, help="folder with verl and what it needs")
    parser.add_argument("--prompts", type=int, default=NUM_PROMPTS, help="of the set whose room is measured")
    options = parser.parse_args()
    find_verl(options.package)
    trainer = [told(*size) for size in SIZES]
    print(*trainer, sep="\n", flush=True)
    actor = asked()
    print(*actor, sep="\n", flush=True)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, max_tasks_per_child=1, mp_context=spawn) as pool:
        rooms = list(pool.map(room, ("ada", "grpo_chosen"), [options.prompts] * 2))
    print(*rooms, sep="\n", flush=True)
    print(save("cost", folder=DOCS / "studies" / "verl", module="verl_cost", trainer=trainer, actor=actor, rooms=rooms))


def _sampled(buffer: Any, queue: TimedQueue, step: int, num_prompts: int) -> dict[str, float]:
    """Let the replay buffer sample a step; return seconds of the thread, without the stand-in's."""
    begun, own_s = time.thread_time(), queue.own_s
    batch, _ = buffer.sample(step, "train", num_prompts)
    ended = time.thread_time()
    last, own_at_last = queue.last
    parts = {
        "sample": ended - begun - (queue.own_s - own_s),
        "last": ended - last - (queue.own_s - own_at_last),
        "theirs": queue.own_s - own_s,
    }
    queue.kv_clear([*queue.asked, *batch.keys], "train")
    return parts


def _buffer(method: str, num_prompts: int, group_size: int) -> tuple[Any, TimedQueue]:
    """Return our replay buffer and its queue, each with the other's time apart."""
    queue = TimedQueue()
    on_its_clock(queue)
    buffer = memory_of(method, num_prompts=num_prompts, known=20 * num_prompts, group_size=group_size, queue=queue)
    buffer._sync_metadata_from_transfer_queue = queue.timed(buffer._sync_metadata_from_transfer_queue)
    return buffer, queue


def _medians(times: list[dict[str, float]]) -> dict[str, float]:
    return {f"{name}_ms": 1000 * statistics.median(each[name] for each in times) for name in times[0]}


def told(num_prompts: int, group_size: int) -> dict[str, Any]:
    """Return milliseconds of the trainer's thread for a step, the median of some: ``ada``, in the driver's process."""
    buffer, queue = _buffer("ada", num_prompts, group_size)
    times: list[dict[str, float]] = []
    for step in range(1, STEPS + 1):
        begun = time.thread_time()
        handouts = buffer.memory.choose()
        chosen = time.thread_time() - begun
        for handout in handouts:
            columns = {"ada_step": handout.step, "ada_slot": handout.slot}
            end = queue.now + handout.slot % POLLS
            queue.put(
                f"{step}-{handout.slot}", Asked(end, False, handout.slot % 2 == 0, step, columns, LENGTH, group_size)
            )
        parts = _sampled(buffer, queue, step, num_prompts)
        begun = time.thread_time()
        state = buffer.memory.brain.state_dict()
        times.append({"choose": chosen} | parts | {"state": time.thread_time() - begun})
        assert state["core"]["step"] == step
    return {"prompts": num_prompts, "responses": group_size} | _medians(times)


def asked() -> list[dict[str, Any]]:
    """Return milliseconds of the actor and of the trainer's thread for a step, by size: ``ada_seq_balance``."""
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000)
    try:
        return [_asked(*size) for size in SIZES]
    finally:
        ray.shutdown()


def _asked(num_prompts: int, group_size: int) -> dict[str, Any]:
    import ray

    from ada_lightning.adapters.verl.actor import ActorBrain

    buffer, queue = _buffer("grpo", num_prompts, group_size)
    buffer.memory.workers_tell = True
    options = {
        "num_prompts": num_prompts, "max_tokens": MAX_TOKENS, "n_max": group_size, "curriculum": "posterior",
        "sampler": "balance_posterior",
    }  # fmt: skip
    prompts = {f"p{number}": "" for number in range(20 * num_prompts)}
    brain = buffer.memory.brain = ActorBrain(f"brain_{num_prompts}", "ada_seq_balance", prompts, options)
    actor: Any = brain._actor
    times: list[dict[str, float]] = []
    calls = 0
    for step in range(1, STEPS + 1):
        begun, actor_s = time.thread_time(), _actor_seconds(actor)
        handouts = buffer.memory.choose()
        chosen = time.thread_time() - begun
        begun, calls = time.process_time(), 0
        wanted = [(handout.slot, index) for handout in handouts for index in handout.indices]
        drawn = dict.fromkeys((handout.slot for handout in handouts), 0)
        while wanted:
            now, wanted = wanted[:AT_ONCE], wanted[AT_ONCE:]
            answers = []
            for slot, index in now:
                drawn[slot] += 1
                right = float(index < group_size - 2 or slot % 2)  # two wrong ones at the end: all are drawn
                answers.append(actor.tell.remote(step - 1, slot, {index: {"reward": right, "num_tokens": 9}}))
            calls += len(now)
            found = zip(now, ray.get(answers), strict=True)
            wanted += [(slot, index) for (slot, _), (more, _) in found for index in more]
        told_s = time.process_time() - begun
        for slot, number in drawn.items():
            columns = {"ada_step": step - 1, "ada_slot": slot}
            asked_for = Asked(queue.now + slot % POLLS, False, False, step, columns, LENGTH, number)
            queue.put(f"{step}-{slot}", asked_for)
        parts = _sampled(buffer, queue, step, num_prompts)
        times.append({"choose": chosen, "told": told_s, "actor": _actor_seconds(actor) - actor_s} | parts)
    lone = []
    for _ in range(200):
        begun = time.perf_counter()
        ray.get(actor.tell.remote(0, 0, {}))
        lone.append(time.perf_counter() - begun)
    ray.kill(actor)
    sizes = {"prompts": num_prompts, "responses": group_size, "calls": calls}
    return sizes | _medians(times) | {"call_ms": 1000 * statistics.median(lone)}


def _actor_seconds(actor: Any) -> float:
    import ray

    seconds: float = ray.get(actor.__ray_call__.remote(lambda brain: time.process_time()))
    return seconds


def room(method: str, num_prompts: int) -> dict[str, Any]:
    """Return what a brain with so many prompts takes, in bytes and seconds of its process."""
    import psutil

    from ada_lightning.adapters import Brain

    process = psutil.Process()
    before = process.memory_info().rss
    prompts = {f"{number:024x}": f"{number:0200d}" for number in range(num_prompts)}
    texts = process.memory_info().rss
    begun = time.process_time()
    brain = Brain(method, prompts, num_prompts=512, max_tokens=MAX_TOKENS)
    made = time.process_time()
    made_bytes = process.memory_info().rss
    times: list[float] = []
    sizes: list[int] = []
    for step in range(STEPS):
        begun_step = time.process_time()
        handouts = brain.choose()
        times.append(time.process_time() - begun_step)
        for handout in handouts:
            results = {index: {"reward": float(index % 2), "num_tokens": 9} for index in handout.indices}
            brain.add(step, handout.slot, results)
        brain.finish()
        sizes.append(len(json.dumps(brain.state_dict())))
    return {
        "method": method,
        "prompts": num_prompts,
        "texts_mb": (texts - before) / 1e6,
        "brain_mb": (made_bytes - texts) / 1e6,
        "after_steps_mb": (process.memory_info().rss - texts) / 1e6,
        "made_s": made - begun,
        "choose_s": times,
        "state_bytes": sizes,
    }


if __name__ == "__main__":
    main()
