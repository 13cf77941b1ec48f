"""What it costs to keep engines out of the trainer's process: ``python -m research.benchmarks.engine_pool``.

One adaptive rollout (balance 2/2, blocks of 4, at most 16 a prompt) of ``model=tiny`` in float32, with lengths
(lognormal, median 16 tokens, sigma 1, cut at 96) and verdicts fixed beforehand, by four ways taken in turns: the engine
in this process, in a process of its own, one Ray actor, and two. Each engine computes with one thread. Before every
rollout the weights are loaded, which is timed by itself and makes prefixes be forgotten.

Beside seconds it counts CPU seconds of this process and of the engines together: on a machine that is shared with other
work they are what an overhead can be read from. It compares every response token by token with the first way's, and for
two actors the requests in flight of each (balance). ``model=tiny`` makes any overhead as large as it can be: a step of
the engine takes milliseconds.

Writes ``docs/performance/engine_pool.json``.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import psutil

from research.benchmarks.report import save
from research.benchmarks.workload import ScriptedLengths, ScriptedVerdicts
from research.drive import collect

NUM_PROMPTS, PROMPT_TOKENS, N_MAX, MAX_NEW_TOKENS, MEDIAN_TOKENS = 32, 96, 16, 96, 16
BASE = "in this process"


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="timed rollouts of each way")
    arguments = parser.parse_args()
    work = Work()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines = {name: stack.enter_context(opened(host, folder)) for name, host in hosts().items()}
        for engine in engines.values():
            work.rollout(engine)  # builds kernels
        seen: dict[str, list[dict[str, Any]]] = {name: [] for name in engines}
        for _ in range(arguments.repetitions):
            for name, engine in engines.items():
                seen[name].append(work.rollout(engine))
        rows = rows_of(seen)
        for row in rows:
            print(row)
    print(save("engine_pool", rows=rows))


def hosts() -> dict[str, Any]:
    """Every way, by name; the first is what others compare with."""
    from ada_lightning.rollout.engines.host import TrainerProcess
    from ada_lightning.rollout.engines.process_pool import ProcessPool
    from ada_lightning.rollout.engines.ray_pool import RayPool

    RayPool(num_engines=3, object_store_gib=0.2)._start_ray()  # for both pools
    return {
        BASE: TrainerProcess(),
        "its own process": ProcessPool(num_threads=1),
        "one Ray actor": RayPool(num_engines=1),
        "two Ray actors": RayPool(num_engines=2),
    }


@contextmanager
def opened(host: Any, folder: Path) -> Iterator[Any]:
    """An engine with half of the slots where there are two, so that all ways have as many."""
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine
    from ada_lightning.training.models.tiny import TinyLlama

    num_engines = getattr(host, "num_engines", 1)
    settings = {"dtype": "float32", "kv_cache_gib": 0.1, "max_num_seqs": 64 // num_engines, "eos_token_ids": ()}
    engine = partial(
        VllmEngine, model_path=TinyLlama().prepare(), max_model_tokens=PROMPT_TOKENS + MAX_NEW_TOKENS, **settings
    )
    made = host.open(engine, folder / f"{type(host).__name__}-{num_engines}.log")
    try:
        yield made
    finally:
        made.close()


class Work:
    """The same rollout every time."""

    def __init__(self) -> None:
        from transformers import AutoModelForCausalLM

        from ada_lightning.core.records import Prompt
        from ada_lightning.training.models.tiny import TinyLlama

        generator = random.Random(0)
        self._lengths, self._verdicts, self._prompts = {}, {}, []
        for slot in range(NUM_PROMPTS):
            pass_rate = generator.betavariate(0.5, 0.8)
            tokens = tuple(generator.randrange(5, 200) for _ in range(PROMPT_TOKENS))
            self._prompts.append(Prompt(f"p{slot}", (), prompt_ids=tokens))
            for index in range(2 * N_MAX):
                length = round(MEDIAN_TOKENS * generator.lognormvariate(0.0, 1.0))
                self._lengths[str(slot), index] = max(1, min(MAX_NEW_TOKENS, length))
                self._verdicts[str(slot), index] = generator.random() < pass_rate
        model = AutoModelForCausalLM.from_pretrained(TinyLlama().prepare(), trust_remote_code=False)
        self._weights = [(name, parameter.detach()) for name, parameter in model.named_parameters()]
        self._version = 0

    def rollout(self, engine: Any) -> dict[str, Any]:
        """Load weights and draw; returns seconds, and what was drawn."""
        from ada_lightning.core.schedule import Continuous
        from ada_lightning.methods.sampling import BalanceSampler
        from ada_lightning.methods.selection import BalancedSelection

        self._version += 1
        started = time.monotonic()
        engine.load_weights(iter(self._weights), self._version)
        sync_s = time.monotonic() - started
        watched = Watched(engine)
        cpu_before = cpu_seconds(engine)
        groups, stats = collect(
            self._prompts,
            BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=N_MAX, group_size=4),
            engine=ScriptedLengths(watched, self._lengths),  # type: ignore[arg-type]
            grader=ScriptedVerdicts(self._verdicts),
            selection=BalancedSelection(group_size=4),
            schedule=Continuous(fill_to=64),
            settings=MAX_NEW_TOKENS,
            decode=str,
            policy_version=self._version,
        )
        return {
            "seconds": stats.seconds,
            "cpu_seconds": cpu_seconds(engine) - cpu_before,
            "sync_s": sync_s,
            "balance": watched.balance(),
            "responses": [response.response_ids for group in groups for response in group.pool.responses],
        }


class Watched:
    """An engine that notes how its requests spread over the engines of a pool."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._loads: list[list[int]] = []

    def poll(self) -> Any:
        """Poll, and note the loads before."""
        if hasattr(self._engine, "loads"):
            self._loads.append(self._engine.loads())
        return self._engine.poll()

    def balance(self) -> float | None:
        """Mean requests in flight of the less busy engine over those of the busier; None for one engine."""
        if not self._loads or len(self._loads[0]) < 2:
            return None
        means = [statistics.fmean(loads) for loads in zip(*self._loads, strict=True)]
        return min(means) / max(means)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def cpu_seconds(engine: Any) -> float:
    """CPU seconds so far of this process and of the engine's."""
    pids = engine.pids() if hasattr(engine, "pids") else []
    if hasattr(engine, "_process"):
        pids = [engine._process.pid]
    times = [psutil.Process(pid).cpu_times() for pid in (os.getpid(), *pids)]
    return sum(one.user + one.system for one in times)


def rows_of(seen: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row per way; ratios are medians over the rounds in which all ways were measured."""
    base = seen[BASE]
    rows = []
    for name, runs in seen.items():
        row: dict[str, Any] = {"way": name}
        for key in ("seconds", "cpu_seconds", "sync_s"):
            row[key] = [round(run[key], 4) for run in runs]
        for key in ("seconds", "cpu_seconds"):
            row[f"{key}_ratio"] = statistics.median(run[key] / b[key] for run, b in zip(runs, base, strict=True))
        row["same_tokens"] = all(run["responses"] == base[0]["responses"] for run in runs)
        row["balance"] = _median([run["balance"] for run in runs])
        rows.append(row)
    return rows


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


if __name__ == "__main__":
    main()
