"""The step-time curve of the real engine on this machine's CPU, with the settings of ``conf/rollout/vllm_cpu.yaml``."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ada_lightning.core.records import SamplingSettings
from research.benchmarks.simulation.forced_engine import ForcedEngine
from research.benchmarks.simulation.replica import Fate, StepTime

BLOCK_SIZE = 32
MAX_BATCHED_TOKENS = 2048
SIZES = (1, 4, 16, 32, 64, 128)
CONTEXTS = (40, 250)
"""Prompt tokens at which decoding is timed: from their difference comes the price of context."""
ADMISSIONS = ((1, 60), (4, 60), (16, 60), (4, 200))
"""(sequences admitted at once, prompt tokens): cold, then cached."""
_STEPS = 6


class _FixedLengths:
    """Every response has the same length."""

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens

    def draw(self, prompt_ids: object, max_new_tokens: int, seed: int) -> Fate:
        return Fate(min(self.num_tokens, max_new_tokens), is_positive=True, is_truncated=False)


@dataclass
class Timings:
    """What was timed, all repetitions."""

    decode: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    """Seconds per step by (sequences, prompt tokens of each)."""
    first_steps: dict[tuple[int, int, bool], list[float]] = field(default_factory=dict)
    """Seconds of the admitting step, submission included, by (sequences, prompt tokens of each, whether cached)."""


def measure(engine: ForcedEngine, timings: Timings) -> None:
    """Time every size and every admission once."""
    fates, engine.fates = engine.fates, _FixedLengths(_STEPS + 2)  # type: ignore[assignment]
    try:
        engine.forget_prefixes()
        _time_batch(engine, [(7,) * CONTEXTS[0]] * SIZES[2])  # loads kernels
        for size in SIZES:
            for context in CONTEXTS if size in (32, 64) else CONTEXTS[:1]:
                _, steps = _time_batch(engine, [(7,) * context] * size)
                timings.decode.setdefault((size, context), []).append(statistics.median(steps))
        for index, (size, length) in enumerate(ADMISSIONS):
            prompts = [(100 + key, 60 + index) + (9,) * (length - 2) for key in range(size)]
            for is_cached in (False, True):
                first, _ = _time_batch(engine, prompts)
                timings.first_steps.setdefault((size, length, is_cached), []).append(first)
    finally:
        engine.fates = fates


def _time_batch(engine: ForcedEngine, prompts: list[tuple[int, ...]]) -> tuple[float, list[float]]:
    """Seconds from submitting to the end of the first step, and of each full step after it."""
    settings = SamplingSettings(max_new_tokens=_STEPS + 2)
    started = time.perf_counter()
    for index, prompt_ids in enumerate(prompts):
        engine.submit(str(index), prompt_ids, settings, seed=index)
    engine.poll()
    first = time.perf_counter() - started
    steps = []
    while engine.num_in_flight():
        started = time.perf_counter()
        engine.poll()
        steps.append(time.perf_counter() - started)
    return first, steps[:_STEPS]


def fit(timings: Timings) -> dict[str, Any]:
    """Fit a :class:`StepTime` to the medians over repetitions.

    Returns:
        ``curve`` (the arguments of :class:`StepTime`), ``decode`` (sequences, mean context of all together, seconds per
        step) and ``admissions`` (sequences, computed prompt tokens, seconds added to the step).
    """
    decode = {key: statistics.median(seconds) for key, seconds in timings.decode.items()}
    first_steps = {key: statistics.median(seconds) for key, seconds in timings.first_steps.items()}
    low, high = CONTEXTS
    slopes = [
        (decode[size, high] - decode[size, low]) / (size * (high - low)) for size in (32, 64)
    ]  # small batches are all overhead and tell nothing of it
    context_s = max(0.0, statistics.median(slopes))
    grown = _STEPS / 2 + 1
    base_s = [decode[size, low] - context_s * size * (low + grown) for size in SIZES]
    bare = StepTime(SIZES, tuple(base_s), context_s, 0.0, 0.0)
    rows = []
    for (size, length, is_cached), seconds in first_steps.items():
        computed = size * (length - (length - 1) // BLOCK_SIZE * BLOCK_SIZE if is_cached else length)
        rows.append((size, computed, seconds - bare.steps(1, size, size * length)))
    counts, tokens, added = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    weights = 1 / np.sqrt(tokens)  # large admissions are slower and noisier
    design = np.stack([counts, tokens], axis=1) * weights[:, None]
    (admission_s, prompt_token_s), *_ = np.linalg.lstsq(design, added * weights, rcond=None)
    return {
        "curve": {
            "sizes": SIZES,
            "base_s": base_s,
            "context_s": context_s,
            "prompt_token_s": max(0.0, float(prompt_token_s)),
            "admission_s": max(0.0, float(admission_s)),
        },
        "decode": [[size, size * (context + grown), seconds] for (size, context), seconds in decode.items()],
        "admissions": rows,
    }


def load_curve(content: dict[str, Any]) -> StepTime:
    """Read a stored ``curve``."""
    return StepTime(**content | {name: tuple(content[name]) for name in ("sizes", "base_s")})
