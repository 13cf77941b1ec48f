"""Real rollouts of the real engine, and the same rollouts on the simulated one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ada_lightning.core.protocols import RolloutEngine, Sampler
from ada_lightning.core.records import Prompt, SamplingSettings
from ada_lightning.core.schedule import Barrier, Continuous, Schedule
from ada_lightning.core.step_records import RolloutStats
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.selection import BalancedSelection
from ada_lightning.rollout.grader import Grader
from research.benchmarks.simulation.cpu import BLOCK_SIZE, MAX_BATCHED_TOKENS
from research.benchmarks.simulation.engine import SimulatedEngine
from research.benchmarks.simulation.forced_engine import ForcedEngine
from research.benchmarks.simulation.replica import Fates, StepTime
from research.drive import collect
from research.scripted import ScriptedGrader

MAX_MODEL_TOKENS = 320
SETTINGS = SamplingSettings(max_new_tokens=48)
NUM_PROMPTS = 16
FATES = Fates(
    # As on the default run's first steps: many prompts near 0, some at every rate.
    pass_rates={100 + index: (index / (NUM_PROMPTS - 1)) ** 3 for index in range(NUM_PROMPTS)},
    median_tokens=12,
    sigma=0.7,
    wrong_length_ratio=1.5,
)
PROMPTS = [Prompt(f"p{key}", (), prompt_ids=(key, *range(200, 230 + key % 40))) for key in FATES.pass_rates]


@dataclass(frozen=True)
class Case:
    """One rollout to measure and to simulate."""

    sampler: Sampler
    schedule: Schedule


def _balance() -> BalanceSampler:
    return BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)


CASES = {
    "GRPO n=4": Case(UniformSampler(group_size=4), Continuous()),
    "balance, barrier": Case(_balance(), Barrier()),
    "balance, continuous": Case(_balance(), Continuous()),
    "balance, continuous, draws ahead": Case(_balance(), Continuous(fill_to=128)),
}


def rollout(case: Case, engine: RolloutEngine, grader: Grader) -> RolloutStats:
    """Run the real collector."""
    _, stats = collect(
        PROMPTS,
        case.sampler,
        engine=engine,
        grader=grader,
        selection=BalancedSelection(group_size=4),
        schedule=case.schedule,
        settings=SETTINGS,
    )
    return stats


def measure(engine: ForcedEngine, rollouts: dict[str, dict[str, Any]]) -> None:
    """Run each case once on the real engine, from an empty prefix cache."""
    for name, case in CASES.items():
        engine.forget_prefixes()
        started = time.perf_counter()
        stats = rollout(case, engine, ScriptedGrader())
        seconds = time.perf_counter() - started
        print(f"{name}: {seconds:.2f} s", flush=True)
        entry = rollouts.setdefault(name, {"seconds": []})
        entry["seconds"].append(seconds)
        entry |= {"committed_tokens": stats.generated_tokens, "wasted_tokens": stats.wasted_tokens}


def simulate(step_time: StepTime) -> dict[str, tuple[float, RolloutStats]]:
    """Virtual seconds of each case."""
    results = {}
    for name, case in CASES.items():
        engine = SimulatedEngine(
            FATES,
            step_time,
            max_model_tokens=MAX_MODEL_TOKENS,
            block_size=BLOCK_SIZE,
            max_batched_tokens=MAX_BATCHED_TOKENS,
        )
        stats = rollout(case, engine, ScriptedGrader())
        results[name] = engine.now, stats
    return results
