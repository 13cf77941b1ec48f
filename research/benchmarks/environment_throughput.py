"""Do slow environments slow decoding down? ``python -m research.benchmarks.environment_throughput``.

Tokens per second of a rollout of 64 episodes of four turns, each of at most 8 to 24 tokens as its seed says, by the
default model and the real engine: with environments that answer at once, and in turns with them, with environments that
take 0.2 s a call. Both draw the same turns. Writes ``docs/performance/environment_throughput.json``.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))

from ada_lightning.core.records import Outcome, SamplingSettings
from research.benchmarks.report import save

SHORTEST, LONGEST, NUM_TURNS, GROUP_SIZE = 8, 24, 4, 4


@dataclass
class CompleteTurns:
    """The real engine, with turns that are complete where they reach a length that is drawn from their seed."""

    engine: Any

    def submit(self, request_id: str, prompt_ids: Sequence[int], settings: SamplingSettings, seed: int | None) -> None:
        """Queue a turn."""
        length = random.Random(seed).randint(SHORTEST, LONGEST)
        self.engine.submit(request_id, prompt_ids, replace(settings, max_new_tokens=length), seed)

    def poll(self) -> list[Outcome]:
        """Run one engine step."""
        return [replace(generation, is_truncated=False) for generation in self.engine.poll()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def main() -> None:
    """Measure, print and save."""
    from research.benchmarks.workload import default_model, vllm_engine

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=64, help="of a rollout, and slots of the engine")
    parser.add_argument("--seconds", type=float, default=0.2, help="that a slow environment takes for an answer")
    parser.add_argument("--workers", type=int, default=64, help="processes of environments")
    parser.add_argument("--repetitions", type=int, default=5, help="timed rollouts of each kind")
    arguments = parser.parse_args()
    model = default_model()
    with vllm_engine(model, eos_token_ids=(), max_num_seqs=arguments.episodes, max_model_tokens=384) as engine:
        pools = {seconds: _started(seconds, arguments.workers) for seconds in (0.0, arguments.seconds)}
        try:
            rows = _measured(model, CompleteTurns(engine), pools, arguments)
        finally:
            for pool in pools.values():
                pool.close()
    speeds = [row["tokens_per_s"] for row in rows]
    ratio = round(statistics.median(speeds[1]) / statistics.median(speeds[0]), 3)
    paired = [round(slow / instant, 3) for instant, slow in zip(*speeds, strict=True)]
    print(*rows, f"slow over instant: {ratio}, in pairs {paired}", sep="\n")
    save(
        "environment_throughput",
        threads=int(os.environ["OMP_NUM_THREADS"]),
        load_average=round(os.getloadavg()[1], 1),
        episodes=arguments.episodes,
        workers=arguments.workers,
        rows=rows,
        ratio=ratio,
        pairs=paired,
    )


def _started(seconds: float, num_workers: int) -> Any:
    from ada_lightning.rollout.episodes.pool import EnvironmentPool

    path, arguments = "research.benchmarks.faults.environments.Waiting", {"seconds": seconds, "num_turns": NUM_TURNS}
    pool = EnvironmentPool(path, arguments=arguments, num_workers=num_workers)
    pool.start()
    return pool


def _measured(model: Any, engine: Any, pools: dict[float, Any], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Time both kinds in turns, after a rollout that builds kernels; one row each."""
    from ada_lightning.data.formats import ChatFormat
    from ada_lightning.methods.sampling import UniformSampler
    from ada_lightning.rollout.episodes.continuation import Continuation
    from ada_lightning.rollout.episodes.open_episodes import OpenEpisodes
    from research.benchmarks.workload import EOS_TOKEN_IDS
    from research.drive import collect
    from research.scripted import ScriptedGrader

    continuation = Continuation(model.tokenizer, ChatFormat(), EOS_TOKEN_IDS, "user").after
    prompts, settings = model.prompts(arguments.episodes // GROUP_SIZE), SamplingSettings(max_new_tokens=LONGEST)
    speeds: dict[float, list[float]] = {seconds: [] for seconds in pools}
    tokens: dict[float, int] = {}
    for repetition in range(arguments.repetitions + 1):
        for seconds, pool in pools.items():
            engine.engine._engine.reset_prefix_cache()
            episodes = OpenEpisodes(pool, continuation, max_turns=NUM_TURNS, seed=0)
            _, stats = collect(
                prompts,
                UniformSampler(group_size=GROUP_SIZE),
                engine=engine,
                grader=ScriptedGrader(),
                settings=settings,
                decode=model.decode,
                episodes=episodes,
            )
            tokens[seconds] = stats.generated_tokens
            if repetition:
                speeds[seconds].append(round(stats.generated_tokens / stats.seconds, 1))
    return [
        {"seconds_a_call": seconds, "tokens": tokens[seconds], "tokens_per_s": found}
        for seconds, found in speeds.items()
    ]


if __name__ == "__main__":
    main()
