"""What adaptive sampling costs beside its tokens: ``python -m research.benchmarks.rollout``.

Committed tokens per second of one rollout (balance 2/2, blocks of 4, at most 32 a prompt) by four ways, taken in turns
in one process and with the very same responses:

- ``vllm``: vLLM given exactly the committed prompts and response lengths as one batch, with a seed and the sampled
  tokens' log-probabilities as a run asks for them.
- ``barrier``: rounds, as in the official code.
- ``continuous``: prompts go on as soon as they are decided, nothing is drawn ahead.
- ``ahead``: the default.

Two kinds of work: ``short`` is the default task with the model's own answers (at most 32 tokens) and its real verifier;
``heavy`` has scripted lengths (lognormal, median 16 tokens, sigma 1, cut at 160) and verdicts (pass rates spread as
Beta(0.5, 0.8)) on the real engine. Writes ``docs/performance/rollout.json``.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

from research.benchmarks.report import save
from research.benchmarks.workload import (
    DefaultModel,
    ScriptedLengths,
    ScriptedVerdicts,
    default_model,
    real_grader,
    vllm_engine,
)
from research.drive import collect

N_MAX, MAX_SHORT, MAX_HEAVY, MEDIAN_HEAVY = 32, 32, 160, 16


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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="timed rollouts of each kind")
    parser.add_argument("--prompts", type=int, nargs="+", default=[32, 64], help="prompts per step")
    arguments = parser.parse_args()
    model = default_model()
    rows: list[dict[str, Any]] = []
    for name in ("short", "heavy"):
        with (
            real_grader() as grader,
            vllm_engine(model, **({} if name == "short" else {"eos_token_ids": ()})) as engine,
        ):
            make = short_work if name == "short" else heavy_work
            measure(make(model, engine, grader, 8), model, repetitions=1)  # builds kernels
            for num_prompts in arguments.prompts:
                work = make(model, engine, grader, num_prompts)
                found = measure(work, model, repetitions=arguments.repetitions)
                rows += [{"work": name, "prompts": num_prompts} | row for row in found]
                print(*rows[-len(found) :], sep="\n", flush=True)
                save("rollout", rows=rows)


def short_work(model: DefaultModel, engine: Any, grader: Any, num_prompts: int) -> Work:
    """The default task as it is."""
    return Work("short", model.prompts(num_prompts), engine, grader, MAX_SHORT)


def heavy_work(model: DefaultModel, engine: Any, grader: Any, num_prompts: int) -> Work:
    """Scripted lengths and verdicts on the real engine, the same ones every time."""
    del grader
    generator = random.Random(0)
    lengths, verdicts = {}, {}
    for slot in range(num_prompts):
        pass_rate = generator.betavariate(0.5, 0.8)
        for index in range(2 * N_MAX):
            lengths[str(slot), index] = max(1, min(MAX_HEAVY, round(MEDIAN_HEAVY * generator.lognormvariate(0.0, 1.0))))
            verdicts[str(slot), index] = generator.random() < pass_rate
    return Work(
        "heavy", model.prompts(num_prompts), ScriptedLengths(engine, lengths), ScriptedVerdicts(verdicts), MAX_HEAVY
    )


def measure(work: Work, model: DefaultModel, *, repetitions: int) -> list[dict[str, Any]]:
    """Time every way in turns; one row each."""
    from ada_lightning.core.schedule import Barrier, Continuous
    from ada_lightning.methods.sampling import BalanceSampler

    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=N_MAX, group_size=4)
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
    seen: dict[str, list[tuple[float, int, int]]] = {way: [] for way in ways}
    for _ in range(repetitions):
        for way, run in ways.items():
            forget_prefixes(work.engine)
            seen[way].append(run())
    return rows_of(seen, len(committed))


def rows_of(seen: dict[str, list[tuple[float, int, int]]], num_responses: int) -> list[dict[str, Any]]:
    """Medians, and ratios to raw vLLM and to rounds."""
    seconds = {way: statistics.median(row[0] for row in runs) for way, runs in seen.items()}
    return [
        {
            "way": way,
            "responses": num_responses,
            "committed_tokens": runs[-1][1],
            "seconds": [round(row[0], 3) for row in runs],
            "tokens_per_s": runs[-1][1] / seconds[way],
            "over_vllm": seconds["vllm"] / seconds[way],
            "over_barrier": seconds["barrier"] / seconds[way],
            "wasted": statistics.median(row[2] for row in runs) / runs[-1][1],
        }
        for way, runs in seen.items()
    ]


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
