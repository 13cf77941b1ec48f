"""Tokens per second of the CPU engine on the default model, by setting, in one run.

``python -m benchmarks.engine`` changes one setting at a time from the defaults and prints medians and ratios to them:
128 sequences, KV blocks of 32 tokens, a seed for every request. The work is that of a default step's first round:
64 chain_sum prompts, 4 responses each of at most 32 tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

DEFAULTS = {"max_num_seqs": 128, "block_size": 32, "seeded": True}
VARIANTS = (
    {},
    {"max_num_seqs": 16},
    {"max_num_seqs": 64},
    {"max_num_seqs": 256},
    {"block_size": 128},
    {"seeded": False},
)
NUM_PROMPTS, NUM_SAMPLES, MAX_NEW_TOKENS = 64, 4, 32


def main() -> None:
    """Measure each variant in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="timed batches per variant")
    parser.add_argument("--one", help="settings that a child process measures, as JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(measure(**json.loads(arguments.one), repetitions=arguments.repetitions))
        return
    baseline = 0.0
    for change in VARIANTS:
        command = [sys.executable, "-m", "benchmarks.engine", "--one", json.dumps(DEFAULTS | change)]
        command += ["--repetitions", str(arguments.repetitions)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        tokens_per_s = float(output.splitlines()[-1])
        baseline = baseline or tokens_per_s
        name = ", ".join(f"{key}={value}" for key, value in change.items()) or "defaults"
        print(f"{name:<24}{tokens_per_s:8.0f} tokens/s{tokens_per_s / baseline:8.2f} x", flush=True)


def measure(*, max_num_seqs: int, block_size: int, seeded: bool, repetitions: int) -> float:
    """Median response tokens per second."""
    from transformers import AutoTokenizer

    from ada_lightning.data.encoder import PromptEncoder
    from ada_lightning.data.reasoning_gym import ReasoningGymSource
    from ada_lightning.malloc import keep_freed_memory
    from ada_lightning.models.wheel import SmolLM2Wheel
    from ada_lightning.rollout.vllm_engine import VllmEngine

    keep_freed_memory()
    path = SmolLM2Wheel().prepare()
    tasks = {"chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}}
    source = ReasoningGymSource(tasks, num_train=NUM_PROMPTS, num_heldout=0, seed=0)
    prompts, _ = PromptEncoder(AutoTokenizer.from_pretrained(path), max_prompt_tokens=256).encode(
        source.train_prompts()
    )
    engine = VllmEngine(
        model_path=path,
        log_file=Path(tempfile.mkdtemp()) / "engine.log",
        max_model_tokens=320,
        eos_token_ids=[2],
        max_num_seqs=max_num_seqs,
        block_size=block_size,
    )
    try:
        rates = [one_batch(engine, [p.prompt_ids for p in prompts], seeded) for _ in range(repetitions + 1)]
    finally:
        engine.close()
    return statistics.median(rates[1:])  # the first builds kernels and fills the prefix cache


def one_batch(engine: object, prompts: list[tuple[int, ...]], seeded: bool) -> float:
    """Response tokens per second of one batch, the same batch every time where requests are seeded."""
    from ada_lightning.rollout.vllm_engine import VllmEngine
    from ada_lightning.types import SamplingSettings

    assert isinstance(engine, VllmEngine)
    settings = SamplingSettings(max_new_tokens=MAX_NEW_TOKENS)
    started = time.monotonic()
    for index, prompt_ids in enumerate(prompts * NUM_SAMPLES):
        engine.submit(str(index), prompt_ids, settings, seed=index if seeded else None)
    num_tokens = 0
    while engine.num_in_flight():
        num_tokens += sum(len(generation.response_ids) for generation in engine.poll())
    return num_tokens / (time.monotonic() - started)


if __name__ == "__main__":
    main()
