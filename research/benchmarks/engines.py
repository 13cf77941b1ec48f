"""Tokens per second of each engine on the default model: ``python -m research.benchmarks.engines``.

Responses of at most 64 tokens, ended where the model ends them, to 8, 32 and 128 requests at once, four of each of so
many new prompts; engines in turn, medians of several. Without vLLM the other one alone. Writes
``docs/performance/engines.json``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from ada_lightning.run.machine import SPIN_COUNT

# As every program of this project has them, before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)

from ada_lightning.core.protocols import RolloutEngine
from ada_lightning.core.records import SamplingSettings
from research.benchmarks.report import save
from research.benchmarks.workload import EOS_TOKEN_IDS, DefaultModel, default_model, vllm_engine

SIZES = (8, 32, 128)
NUM_TOKENS = 64
GROUP = 4


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="requests at once")
    parser.add_argument("--tokens", type=int, default=NUM_TOKENS, help="of each response, at most")
    parser.add_argument("--repetitions", type=int, default=3, help="timed, after one that is not")
    options = parser.parse_args()
    model, rows = default_model(), []
    with ExitStack() as stack:
        engines = {"transformers": stack.enter_context(transformers_engine(model, max_num_seqs=max(options.sizes)))}
        if importlib.util.find_spec("vllm"):
            engines["vllm"] = stack.enter_context(vllm_engine(model))
        for size in options.sizes:
            num_prompts, num_turns = size // GROUP, options.repetitions + 1
            fresh = iter(model.prompts(num_prompts * num_turns))  # vLLM would find the last turn's in its prefix cache
            turns = []
            for _ in range(num_turns):
                prompts = [prompt.prompt_ids for prompt in islice(fresh, num_prompts) for _ in range(GROUP)]
                turns.append({name: tokens_per_second(each, prompts, options.tokens) for name, each in engines.items()})
            turns = turns[1:]
            found = {name: round(statistics.median(turn[name] for turn in turns)) for name in engines}
            rows.append({"requests": size, "vllm": "-", **found})
            print(rows[-1], flush=True)
    save("engines", rows=rows)


@contextmanager
def transformers_engine(model: DefaultModel, **options: Any) -> Iterator[RolloutEngine]:
    """Open the engine with the settings of ``conf/rollout/transformers.yaml`` unless given others."""
    from ada_lightning.rollout.engines.transformers_engine import TransformersEngine

    log_file = Path(tempfile.mkdtemp(prefix="ada_lightning-")) / "engine.log"
    engine = TransformersEngine(
        model_path=model.path, log_file=log_file, max_model_tokens=320, eos_token_ids=EOS_TOKEN_IDS, **options
    )
    try:
        yield engine
    finally:
        engine.close()


def tokens_per_second(engine: RolloutEngine, prompts: Sequence[Sequence[int]], num_tokens: int) -> float:
    """Draw a response of each prompt, all at once, and return the tokens of all by the seconds that took."""
    settings = SamplingSettings(max_new_tokens=num_tokens)
    started, done = time.monotonic(), 0
    for index, prompt in enumerate(prompts):
        engine.submit(str(index), prompt, settings, seed=index)
    while engine.num_in_flight():
        done += sum(len(generation.response_ids) for generation in engine.poll())
    return done / (time.monotonic() - started)


if __name__ == "__main__":
    main()
