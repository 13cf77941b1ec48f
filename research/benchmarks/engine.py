"""Tokens per second of the CPU engine on the default model, by setting: ``python -m research.benchmarks.engine``.

One setting at a time is changed from the defaults (128 sequences, KV blocks of 32 tokens, a seed for every request, C
kernels for norms, no compilation), each in a process of its own; the defaults are measured first and last, so that the
drift of a shared machine shows. The work is that of a default step's first round: 64 chain_sum prompts, 4 responses
each of at most 32 tokens, prefixes forgotten before each batch. Prints medians and ratios, writes
``docs/performance/engine.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

from research.benchmarks.report import save
from research.benchmarks.workload import default_model, vllm_engine

VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "16 sequences": {"max_num_seqs": 16},
    "64 sequences": {"max_num_seqs": 64},
    "256 sequences": {"max_num_seqs": 256},
    "KV blocks of 128 tokens": {"block_size": 128},
    "no seeds": {"is_seeded": False},
    "norms of PyTorch operations": {"extra": {"ir_op_priority": {}}},
    "compiled": {"enforce_eager": False},
    "one thread": {"threads": 1},
    "defaults again": {},
}
NUM_PROMPTS, NUM_SAMPLES, MAX_NEW_TOKENS = 64, 4, 32


def main() -> None:
    """Measure each variant in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="timed batches per variant")
    parser.add_argument("--only", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), help="variants")
    parser.add_argument("--one", help="settings that a child process measures, as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(**json.loads(arguments.one), repetitions=arguments.repetitions)))
        return
    rows: list[dict[str, Any]] = []
    for name in arguments.only:
        change = dict(VARIANTS[name])
        threads = str(change.pop("threads", os.environ["OMP_NUM_THREADS"]))
        command = [sys.executable, "-m", "research.benchmarks.engine", "--one", json.dumps(change)]
        command += ["--repetitions", str(arguments.repetitions)]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": threads}
        )
        found = json.loads(done.stdout.splitlines()[-1])
        found["tokens_per_s"] = statistics.median(found["rates"])
        rows.append({"variant": name} | found)
        ratio = found["tokens_per_s"] / rows[0]["tokens_per_s"]
        print(
            f"{name:<46}{found['tokens_per_s']:8.0f} tokens/s{ratio:7.2f} x  start {found['start_s']:5.1f} s",
            flush=True,
        )
        save("engine", rows=rows)  # after each: a variant that does not work here takes nothing else along


def measure(*, is_seeded: bool = True, repetitions: int, **settings: Any) -> dict[str, Any]:
    """Response tokens per second of each batch, and seconds until the engine was ready."""
    model = default_model()
    prompts = [prompt.prompt_ids for prompt in model.prompts(NUM_PROMPTS)]
    started = time.monotonic()
    with vllm_engine(model, **settings) as engine:
        one_batch(engine, prompts, is_seeded)  # builds kernels
        start_s = time.monotonic() - started
        rates = [one_batch(engine, prompts, is_seeded) for _ in range(repetitions)]
    return {"rates": rates, "start_s": start_s}


def one_batch(engine: Any, prompts: list[tuple[int, ...]], is_seeded: bool) -> float:
    """Response tokens per second of one batch, the same batch every time where requests are seeded."""
    from ada_lightning.core.records import SamplingSettings

    assert engine._engine.reset_prefix_cache()
    settings = SamplingSettings(max_new_tokens=MAX_NEW_TOKENS)
    started = time.monotonic()
    for index, prompt_ids in enumerate(prompts * NUM_SAMPLES):
        engine.submit(str(index), prompt_ids, settings, seed=index if is_seeded else None)
    num_tokens = 0
    while engine.num_in_flight():
        num_tokens += sum(len(generation.response_ids) for generation in engine.poll())
    return num_tokens / (time.monotonic() - started)


if __name__ == "__main__":
    main()
