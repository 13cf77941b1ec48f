"""Logs whose truth is known: pass rates, lengths and drift of a population of prompts, and what is drawn of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ada_lightning.audit.records import Log, Order, Row, Sampling

RATES = (0.0, 0.03, 0.1, 0.3, 0.6, 0.9, 1.0)
"""Pass rates that prompts have."""
SHARES = (0.2, 0.15, 0.15, 0.15, 0.15, 0.1, 0.1)
"""Of prompts at the first step."""
CLIMB = 0.25
"""Chance that a prompt has the next higher rate at its next visit."""
GAP = -15.0
"""Mean length of a right response minus that of a wrong one, in tokens."""
LENGTH_LIMIT = 70


@dataclass(frozen=True)
class Population:
    """What a log is drawn of. All prompts are visited in every step."""

    num_prompts: int = 100
    num_steps: int = 3
    group_size: int = 16

    def shares(self, step: int) -> np.ndarray:
        """Share of prompts with each of :data:`RATES` in a step, shape ``(7,)``."""
        found = np.array(SHARES)
        for _ in range(step):
            moved = CLIMB * found[:-1]
            found = found - np.append(moved, 0.0) + np.append(0.0, moved)
        return found


def mean_length(rate: float, *, is_right: bool) -> float:
    """Tokens of a response: hard prompts have longer ones."""
    return 60.0 - 25.0 * rate + (GAP if is_right else 0.0)


def draw(population: Population, seed: int) -> Log:
    """Draw a log: binomial rewards, Poisson lengths of at least one token, TRL's advantages."""
    rng = np.random.default_rng(seed)
    places = rng.choice(len(RATES), size=population.num_prompts, p=SHARES)
    rows: list[Row] = []
    for step in range(population.num_steps):
        for prompt, place in enumerate(places):
            rows += _group(step, prompt, RATES[place], population.group_size, rng)
        places = np.minimum(places + (rng.random(len(places)) < CLIMB), len(RATES) - 1)
    return Log("synthetic", rows, order=Order.LAUNCH, sampling=Sampling.UNIFORM)


def _group(step: int, prompt: int, rate: float, size: int, rng: np.random.Generator) -> list[Row]:
    right = rng.random(size) < rate
    spread = right.std(ddof=1)
    rows = []
    for index, is_right in enumerate(right):
        tokens = max(1, int(rng.poisson(mean_length(rate, is_right=bool(is_right)))))
        rows.append(
            Row(
                source="synthetic",
                step=step,
                group_key=f"{prompt:05d}",
                sample_index=index,
                reward=float(is_right),
                prompt_key=f"{prompt:05d}",
                policy_version=step,
                num_tokens=tokens,
                num_characters=2 * tokens - 1,
                num_prompt_tokens=7,
                is_truncated=tokens >= LENGTH_LIMIT,
                advantage=float((is_right - right.mean()) / (spread + 1e-4)),
            )
        )
    return rows
