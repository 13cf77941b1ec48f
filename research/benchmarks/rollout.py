"""What adaptive sampling costs in addition to its tokens: ``python -m research.benchmarks.rollout``.

Committed tokens per second of one rollout (balance 2/2, blocks of 4, at most 32 a prompt) by four ways, taken in turns
in one process and with the very same responses:

- ``vllm``: vLLM given exactly the committed prompts and response lengths as one batch, with a seed and the sampled
  tokens' log-probabilities as a run asks for them.
- ``barrier``: rounds, as in the official code.
- ``continuous``: prompts go on as soon as they are decided, nothing is drawn ahead.
- ``ahead``: the default.

Two kinds of work. ``short`` is the default task with the model's own answers (at most 32 tokens) and its real verifier.
``heavy`` has scripted lengths (lognormal, median 16 tokens, sigma 1, cut at 160) and verdicts (pass rates spread as
Beta(0.5, 0.8)) on the real engine. Writes ``docs/performance/rollout.json``.

On a GPU the engine is that of ``conf/rollout/vllm_gpu.yaml`` with 256 to 1,024 sequences at once, a prompt for every
four of them; heavy work is twice as long, and ``continuous`` is left out. Rounding depends there on what is computed
together, so a few responses differ between ways: each way's speed is that of its own tokens, and vLLM is given those of
``ahead``. Writes ``docs/performance/gpu_rollout.json``, with the memory of the card.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from research.benchmarks.on_device import MODELS, add_seconds, has_gpu, model_folder, save_part, stopping_after

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

from research.benchmarks.workload import (
    EOS_TOKEN_IDS,
    DefaultModel,
    ScriptedLengths,
    ScriptedVerdicts,
    default_model,
    real_grader,
    vllm_engine,
)
from research.drive import collect

GIB = 2**30
N_MAX, BLOCK, MAX_SHORT, MAX_HEAVY, MEDIAN_HEAVY = 32, 4, 32, 160, 16
GPU_HEAVY = {"longest": 256, "median": 32}
PROMPTS, GPU_PROMPTS = (32, 64), (128, 64, 256)
"""Prompts per step; on a GPU a block of each fills the engine, and the size that matters most stands first."""
GPU_ENGINE = {"max_num_seqs": 1024, "kv_cache_gib": 16, "block_size": 16, "dtype": "bfloat16", "enforce_eager": False}


@dataclass(frozen=True, slots=True)
class Work:
    """One kind of rollout."""

    name: str
    prompts: Sequence[Any]
    engine: Any
    grader: Any
    max_new_tokens: int


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5, help="timed rollouts of each kind")
    parser.add_argument("--prompts", type=int, nargs="+", help="prompts per step")
    parser.add_argument("--model", choices=MODELS[1:], default="smollm2", help="qwen_1_5b: its shape, random weights")
    add_seconds(parser)
    arguments = parser.parse_args()
    sizes = arguments.prompts or (GPU_PROMPTS if has_gpu() else PROMPTS)
    if min(arguments.repetitions, *sizes, 1) < 1 or (has_gpu() and max(sizes) * BLOCK > GPU_ENGINE["max_num_seqs"]):
        parser.error(
            f"--repetitions and --prompts must be positive, and on a GPU at most {GPU_ENGINE['max_num_seqs'] // BLOCK} "
            f"prompts fill the engine; got {arguments.repetitions} and {' '.join(map(str, sizes))}"
        )
    rows: list[dict[str, Any]] = []
    missing = [f"{name}, {size}" for size in sizes for name in ("short", "heavy")]
    with (
        stopping_after(arguments.seconds),
        model_folder(arguments.model) as folder,
        real_grader(max(1, (os.cpu_count() or 1) // 4)) as grader,
        vllm_engine(model := default_model(folder), **(GPU_ENGINE if has_gpu() else {})) as engine,
    ):
        works = {"short": short_work, "heavy": heavy_work}
        for name, make in works.items():
            with as_work(engine, name):
                list(measured(make(model, engine, grader, 8), model, repetitions=1))  # builds kernels
        for size in sizes:
            for name, make in works.items():
                with as_work(engine, name, BLOCK * size):
                    about = {"work": name, "prompts": size} | ({"sequences": BLOCK * size} if has_gpu() else {})
                    before = list(rows)
                    for found in measured(make(model, engine, grader, size), model, repetitions=arguments.repetitions):
                        rows = before + [about | row for row in found]
                        missing = [one for one in missing if one != f"{name}, {size}"]
                        save_part("rollout", missing, rows=rows, **({"model": arguments.model} if has_gpu() else {}))
                    print(*rows[len(before) :], sep="\n", flush=True)


@contextmanager
def as_work(engine: Any, name: str, num_slots: int = 0) -> Iterator[None]:
    """Have responses end where the work says it, and on a GPU so many sequences decoded at once, of those there are."""
    slots, engine._eos_token_ids = engine.max_num_seqs, list(EOS_TOKEN_IDS if name == "short" else ())
    scheduler = engine._engine.engine_core.engine_core.scheduler
    # How many requests it admits: of vLLM 0.31 and later, and of those before.
    limit = "max_num_active_reqs" if hasattr(scheduler, "max_num_active_reqs") else "max_num_running_reqs"
    assert getattr(scheduler, limit) == slots
    if has_gpu() and num_slots:
        setattr(scheduler, limit, num_slots)
        engine.max_num_seqs = num_slots
    try:
        yield
    finally:
        setattr(scheduler, limit, slots)
        engine.max_num_seqs = slots


def short_work(model: DefaultModel, engine: Any, grader: Any, num_prompts: int) -> Work:
    """The default task as it is."""
    return Work("short", model.prompts(num_prompts), engine, grader, MAX_SHORT)


def heavy_work(model: DefaultModel, engine: Any, grader: Any, num_prompts: int) -> Work:
    """Scripted lengths and verdicts on the real engine, the same ones every time."""
    del grader
    generator = random.Random(0)
    longest, median = GPU_HEAVY.values() if has_gpu() else (MAX_HEAVY, MEDIAN_HEAVY)
    lengths, verdicts = {}, {}
    for slot in range(num_prompts):
        pass_rate = generator.betavariate(0.5, 0.8)
        for index in range(2 * N_MAX):
            lengths[str(slot), index] = max(1, min(longest, round(median * generator.lognormvariate(0.0, 1.0))))
            verdicts[str(slot), index] = generator.random() < pass_rate
    return Work(
        "heavy", model.prompts(num_prompts), ScriptedLengths(engine, lengths), ScriptedVerdicts(verdicts), longest
    )


def measured(work: Work, model: DefaultModel, *, repetitions: int) -> Iterator[list[dict[str, Any]]]:
    """Time every way in turns; yield one row each after every turn."""
    from ada_lightning.core.schedule import Barrier, Continuous
    from ada_lightning.methods.sampling import BalanceSampler

    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=BLOCK, n_max=N_MAX, group_size=4)
    committed: list[tuple[Sequence[int], int]] = []

    def timed(schedule: Any) -> tuple[float, int, int]:
        groups, stats = rollout(work, model, schedule, sampler)
        committed[:] = [(g.pool.prompt.prompt_ids, len(r.response_ids)) for g in groups for r in g.pool.responses]
        return stats.seconds, stats.generated_tokens, stats.wasted_tokens

    ways: dict[str, Callable[[], tuple[float, int, int]]] = {
        "barrier": lambda: timed(Barrier()),
        "continuous": lambda: timed(Continuous()),
        "ahead": lambda: timed(Continuous(fill_to=work.engine.max_num_seqs)),
        "vllm": lambda: raw_batch(work.engine, committed),
    }
    if has_gpu():
        del ways["continuous"]
    seen: dict[str, list[tuple[float, int, int]]] = {way: [] for way in ways}
    for _ in range(repetitions):
        for way, run in ways.items():
            forget_prefixes(work.engine)
            seen[way].append(run())
        yield [row | memory() for row in rows_of(seen, len(committed))]


def rows_of(seen: dict[str, list[tuple[float, int, int]]], num_responses: int) -> list[dict[str, Any]]:
    """Medians, and ratios of tokens per second to raw vLLM and to rounds."""
    speeds = {way: statistics.median(tokens / seconds for seconds, tokens, _ in runs) for way, runs in seen.items()}
    return [
        {
            "way": way,
            "responses": num_responses,
            "committed_tokens": runs[-1][1],
            "seconds": [round(row[0], 3) for row in runs],
            "tokens_per_s": speeds[way],
            "over_vllm": speeds[way] / speeds["vllm"],
            "over_barrier": speeds[way] / speeds["barrier"],
            "wasted": statistics.median(row[2] for row in runs) / runs[-1][1],
        }
        for way, runs in seen.items()
    ]


def memory() -> dict[str, float]:
    """Return GiB of the card that are taken, and those of torch's allocator at their highest; nothing on a CPU."""
    if not has_gpu():
        return {}
    import torch

    free, total = torch.cuda.mem_get_info()
    return {"used_gib": round((total - free) / GIB, 2), "peak_gib": round(torch.cuda.max_memory_allocated() / GIB, 2)}


def rollout(work: Work, model: DefaultModel, schedule: Any, sampler: Any) -> tuple[Any, Any]:
    """One rollout of the real collector."""
    from ada_lightning.methods.selection import BalancedSelection

    return collect(
        work.prompts,
        sampler,
        engine=work.engine,
        grader=work.grader,
        selection=BalancedSelection(group_size=4),
        schedule=schedule,
        settings=work.max_new_tokens,
        decode=model.decode,
    )


def raw_batch(engine: Any, committed: Sequence[tuple[Sequence[int], int]]) -> tuple[float, int, int]:
    """Seconds that vLLM itself takes for these prompts and lengths, all handed over at once and in this order."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams

    llm = engine._engine._engine if isinstance(engine, ScriptedLengths) else engine._engine
    started = time.monotonic()
    for index, (prompt_ids, length) in enumerate(committed):
        params = SamplingParams(
            max_tokens=length,
            min_tokens=length,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            seed=index,
            logprobs=0,
        )
        llm.add_request(str(index), {"prompt_token_ids": list(prompt_ids)}, params)
    num_tokens = 0
    while llm.has_unfinished_requests():
        num_tokens += sum(len(output.outputs[0].token_ids) for output in llm.step() if output.finished)
    return time.monotonic() - started, num_tokens, 0


def forget_prefixes(engine: Any) -> None:
    """Start as after a weight sync: without cached prefixes."""
    llm = engine._engine._engine if isinstance(engine, ScriptedLengths) else engine._engine
    assert llm.reset_prefix_cache()


if __name__ == "__main__":
    main()
