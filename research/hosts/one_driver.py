"""How many engines one driver keeps busy: ``python -m research.hosts.one_driver``.

The real driver, step and pool, with engines that only keep time (256 slots, 40 ms a token, responses of 256 tokens in
the mean) in one other process, each behind a socket with a pool's own messages. Grading takes no time, so what is
measured is the driver. Writes ``docs/reliability/hosts_one_driver.json``.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.rollout.engines.engine_pool import EnginePool
from ada_lightning.rollout.engines.pool_place import PoolHost
from research.benchmarks.report import markdown
from research.drive import collect, scripted_prompts
from research.hosts.farm import MAX_TOKENS, MEAN_TOKENS, FarmPlace
from research.hosts.figures import load, save
from research.scripted import ScriptedGrader

NUM_SLOTS, TOKEN_S, GROUP, WAVES = 256, 0.04, 16, 4


class CountingGrader(ScriptedGrader):
    """Notes when each response was graded."""

    def __init__(self) -> None:
        super().__init__()
        self.num_graded = 0

    def poll(self) -> Any:
        """Return the verdicts since the last call."""
        ready = super().poll()
        self.num_graded += len(ready)
        return ready


class Timed:
    """A pool, and the seconds that the driver spends in its calls."""

    def __init__(self, pool: EnginePool) -> None:
        self._pool = pool
        self.seconds = {"poll": 0.0, "submit": 0.0, "abort": 0.0}
        for name in self.seconds:
            setattr(self, name, self._timed(name, getattr(pool, name)))

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            started = time.thread_time()
            try:
                return call(*arguments)
            finally:
                self.seconds[name] += time.thread_time() - started

        return timed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, nargs="+", default=[4, 8, 16, 32, 64, 128])
    parser.add_argument("--waves", type=float, default=WAVES, help="responses for each slot")
    arguments = parser.parse_args()
    rows = []
    for number in arguments.engines:
        rows.append(measure(number, arguments.waves))
        save("one_driver", waves=arguments.waves, slots=NUM_SLOTS, token_s=TOKEN_S, mean_tokens=MEAN_TOKENS, rows=rows)


def measure(num_engines: int, waves: float) -> dict[str, Any]:
    """Draw one step; what counts is its middle, when all slots are in use."""
    num_prompts = max(1, round(num_engines * NUM_SLOTS * waves / GROUP))
    prompts = scripted_prompts(num_prompts)
    process, grader = psutil.Process(), CountingGrader()
    before_mib = process.memory_info().rss / 2**20
    pool = EnginePool(FarmPlace(num_engines, NUM_SLOTS, TOKEN_S), PoolHost(num_engines=num_engines, affinity=GROUP))
    timed = Timed(pool)
    samples: list[tuple[float, int, float, float, int]] = []
    is_over = threading.Event()

    def sample() -> None:
        while not is_over.wait(0.5):
            times = process.cpu_times()
            loads = sum(len(seat.in_flight) for seat in pool._seats)
            memory = process.memory_info().rss / 2**20
            samples.append((time.monotonic(), grader.num_graded, times.user + times.system, memory, loads))

    watcher = threading.Thread(target=sample)
    watcher.start()
    started_cpu = time.thread_time()
    try:
        _, stats = collect(
            prompts, UniformSampler(group_size=GROUP), engine=timed, grader=grader, settings=MAX_TOKENS,
        )  # fmt: skip
    finally:
        is_over.set()
        watcher.join()
        pool.close()
    cpu_s = time.thread_time() - started_cpu
    total = num_prompts * GROUP
    last_full = min(0.7, 1.0 - 1.0 / waves)  # behind it nothing waits any more, and slots become empty
    middle = [each for each in samples if 0.3 * total <= each[1] <= last_full * total] or samples
    (first_at, first, first_cpu, *_), (last_at, last, last_cpu, *_) = middle[0], middle[-1]
    window_s = max(last_at - first_at, 1e-9)
    in_pool = sum(timed.seconds.values())
    return {
        "engines": num_engines,
        "slots": num_engines * NUM_SLOTS,
        "responses": total,
        "seconds": round(stats.seconds, 1),
        "graded_per_s": round((last - first) / window_s, 1),
        "slots_allow_per_s": round(num_engines * NUM_SLOTS / (MEAN_TOKENS * TOKEN_S), 1),
        "slots_in_use": round(sum(each[4] for each in middle) / len(middle) / (num_engines * NUM_SLOTS), 3),
        "driver_cpu": round((last_cpu - first_cpu) / window_s, 3),
        "us_a_response": round(1e6 * cpu_s / total, 1),
        "us_in_poll": round(1e6 * timed.seconds["poll"] / total, 1),
        "us_in_submit": round(1e6 * timed.seconds["submit"] / total, 1),
        "us_elsewhere": round(1e6 * (cpu_s - in_pool) / total, 1),
        "memory_mib": round(max(each[3] for each in samples) - before_mib, 1),
    }


def table() -> str:
    """Return the rows as Markdown."""
    names = [
        "engines", "slots", "graded a second", "that the slots allow", "slots in use", "driver, cores",
        "driver, us a response", "memory, MiB", "engines that such a driver could serve",
    ]  # fmt: skip
    keys = (
        "engines", "slots", "graded_per_s", "slots_allow_per_s", "slots_in_use", "driver_cpu", "us_a_response",
        "memory_mib",
    )  # fmt: skip
    content = load("one_driver")
    of_an_engine = content["slots"] / content["mean_tokens"] / content["token_s"]  # responses a second
    rows = content["rows"]
    return markdown(
        names, [[*(row[key] for key in keys), round(1e6 / row["us_a_response"] / of_an_engine)] for row in rows]
    )


if __name__ == "__main__":
    main()
