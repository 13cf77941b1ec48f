"""Episodes with environments that misbehave, played and held against what should become of them."""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from ada_lightning.core.records import Outcome, Prompt, SamplingSettings
from ada_lightning.methods.sampling import UniformSampler
from ada_lightning.rollout.episodes.open_episodes import OpenEpisodes
from ada_lightning.rollout.episodes.pool import EnvironmentPool
from research.benchmarks.faults.environments import FAULTS, HARMLESS
from research.benchmarks.report import RELIABILITY, save
from research.drive import collect
from research.scripted import ScriptedGrader

GROUP_SIZE, MAX_TURNS, MAX_NEW_TOKENS, MAX_MODEL_TOKENS = 2, 3, 8, 512
SAMPLING = SamplingSettings(max_new_tokens=MAX_NEW_TOKENS)
TIME_LIMIT_S = 1.0
PARTS = 4
"""In which the episodes are drawn, one with ordinary environments before each."""


@dataclass
class TimedEngine:
    """An engine that keeps its steps' times; a turn that reaches its length is complete."""

    engine: Any
    steps: list[float] = field(default_factory=list)
    """Seconds of each step."""
    gaps: list[float] = field(default_factory=list)
    """Seconds from a step to the next one, where the first left something to decode: what decoding waits for."""
    works: list[float] = field(default_factory=list)
    """Of these, what this thread computed; the rest belongs to whoever else has the machine or the interpreter."""
    num_longer: int = 0
    """Of them longer than the step before."""
    num_computed_longer: int = 0
    """Of those again, in which this thread computed for longer than that."""
    _ended: tuple[float, float] | None = None

    def poll(self) -> list[Outcome]:
        """Run one step."""
        started = time.perf_counter()
        if self._ended is not None:
            self.gaps.append(started - self._ended[0])
            self.works.append(time.thread_time() - self._ended[1])
            self.num_longer += self.gaps[-1] > self.steps[-1]
            self.num_computed_longer += self.works[-1] > self.steps[-1]
        finished = self.engine.poll()
        ended = time.perf_counter()
        self.steps.append(ended - started)
        self._ended = (ended, time.thread_time()) if self.engine.num_in_flight() else None
        return [replace(generation, is_truncated=False) for generation in finished]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def summary(self) -> dict[str, float]:
        """Return milliseconds of steps and of what decoding waited for between them."""
        kinds = {"step": self.steps, "gap": self.gaps or [0.0], "work": self.works or [0.0]}
        found: dict[str, float] = {
            "steps": len(self.steps),
            "longer_than_their_step": self.num_longer,
            "computed_longer": self.num_computed_longer,
        }
        for name, seconds in kinds.items():
            for part, share in (("median", 0.5), ("p99", 0.99), ("max", 1.0)):
                found[f"{name}_{part}_ms"] = round(1000 * float(np.quantile(seconds, share)), 3)
        found["share_waited"] = round(sum(self.gaps) / (sum(self.gaps) + sum(self.steps)), 4)
        return found


def prompts_of(num_prompts: int, *, hostile: bool, seed: int = 0) -> list[Prompt]:
    """Return prompts of which every fifth has an environment that misbehaves, at its first answer or its second."""
    kinds = [*FAULTS, *HARMLESS]
    generator = random.Random(seed)
    prompts = []
    for index in range(num_prompts):
        is_hostile = hostile and index % 5 == 4
        reference = {"kind": kinds[index // 5 % len(kinds)] if is_hostile else "good", "after": generator.randrange(2)}
        ids = (1, *(generator.randrange(3, 250) for _ in range(8)))
        prompts.append(Prompt(f"{reference['kind']}-{index}", (), reference, prompt_ids=ids))
    return prompts


def play(
    prompts: Sequence[Prompt], engine: Any, continuation: Callable[[str], list[int]], pool: EnvironmentPool
) -> dict[str, Any]:
    """Draw episodes of each prompt, and hold what came back against what should have.

    Returns:
        Counts: ``lost`` and ``twice`` of episodes, ``wrong`` of those that are counted or worth other than they should,
        and ``failures`` by reason.
    """
    episodes = OpenEpisodes(pool, continuation, max_turns=MAX_TURNS, seed=0)
    groups, stats = collect(
        prompts,
        UniformSampler(group_size=GROUP_SIZE),
        engine=engine,
        grader=ScriptedGrader(),
        settings=SAMPLING,
        decode=str,
        episodes=episodes,
    )
    lost = twice = wrong = 0
    expected: Counter[str] = Counter()
    for prompt, group in zip(prompts, groups, strict=True):
        drawn, found = group.pool, [response.sample_index for response in group.pool.responses]
        reason, reward = FAULTS.get(prompt.reference["kind"], ("", 1.0))
        lost += max(GROUP_SIZE - len(set(found)) - drawn.num_failed * (reward is None), 0)
        twice += len(found) - len(set(found)) + max(drawn.num_drawn - GROUP_SIZE, 0)
        wrong += sum(response.reward != reward for response in group.pool.responses)
        wrong += drawn.num_failed != (GROUP_SIZE if reward is None else 0)
        if reason:
            expected[f"environment_{reason}"] += GROUP_SIZE
    failures = Counter(stats.failures)
    wrong += (failures - expected).total() + (expected - failures).total()
    return {"episodes": stats.num_drawn, "lost": lost, "twice": twice, "wrong": wrong, "failures": dict(stats.failures)}


def main(description: str) -> None:
    """Play, prove, print and save."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--episodes", type=int, default=2000, help="with one environment in five that misbehaves")
    parser.add_argument("--workers", type=int, default=4, help="processes of environments")
    arguments = parser.parse_args()
    pool = EnvironmentPool(
        "research.benchmarks.faults.environments.Hostile",
        num_workers=arguments.workers,
        time_limit_s=TIME_LIMIT_S,
        memory_limit_gb=1.0,
    )
    engine, continuation = opened()
    try:
        pool.start()
        content = alternating(engine, continuation, pool, arguments.episodes // GROUP_SIZE)
    finally:
        pool.close()
        engine.close()
    print(json.dumps(content, indent=1))
    save("hostile_environments", folder=RELIABILITY, load_average=round(os.getloadavg()[1], 1), **content)
    assert not any(content["proof"][name] for name in ("lost", "twice", "wrong")), content["proof"]


def alternating(
    engine: Any, continuation: Callable[[str], list[int]], pool: EnvironmentPool, num_prompts: int
) -> dict[str, Any]:
    """Play ordinary and hostile environments in turns."""
    timed = {kind: TimedEngine(engine) for kind in ("ordinary", "hostile")}
    seconds = dict.fromkeys(timed, 0.0)
    found: list[dict[str, Any]] = []
    hostile = prompts_of(num_prompts, hostile=True)
    size = -(-num_prompts // PARTS)
    play(prompts_of(8, hostile=False), engine, continuation, pool)  # builds kernels
    for first in range(0, num_prompts, size):
        parts = {"ordinary": prompts_of(size, hostile=False, seed=first), "hostile": hostile[first : first + size]}
        for kind, prompts in parts.items():
            started = time.monotonic()
            played = play(prompts, timed[kind], continuation, pool)
            seconds[kind] += time.monotonic() - started
            found += [played] if kind == "hostile" else []
    proof = {name: sum(part[name] for part in found) for name in ("episodes", "lost", "twice", "wrong")}
    failures = sum((Counter(part["failures"]) for part in found), Counter())
    decoding = {kind: engine.summary() | {"seconds": round(seconds[kind], 1)} for kind, engine in timed.items()}
    return {"proof": proof, "failures": dict(sorted(failures.items())), "decoding": decoding}


def opened() -> tuple[Any, Callable[[str], list[int]]]:
    """Return the engine with the default model, and what continues its episodes."""
    from ada_lightning.data.formats import ChatFormat
    from ada_lightning.rollout.engines.vllm_engine import VllmEngine
    from ada_lightning.rollout.episodes.continuation import Continuation
    from ada_lightning.run.terminal import quiet_libraries
    from ada_lightning.training.models.served import read_model
    from ada_lightning.training.models.wheel import SmolLM2Wheel

    quiet_libraries()
    model = read_model(SmolLM2Wheel().prepare())
    engine = VllmEngine(
        model_path=model.path,
        log_file=Path(tempfile.mkdtemp(prefix="ada_lightning-")) / "engine.log",
        eos_token_ids=model.eos_token_ids,
        max_model_tokens=MAX_MODEL_TOKENS,
        max_num_seqs=32,
        kv_cache_gib=0.1,
    )
    return engine, Continuation(model.tokenizer, ChatFormat(), model.eos_token_ids, "user").after
