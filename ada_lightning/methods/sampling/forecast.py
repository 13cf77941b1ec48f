"""What a sampler will cost and yield, from a few responses per prompt."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from ada_lightning.core.protocols import Sampler, Selection
from ada_lightning.core.records import Belief, Prompt, Response, ResponsePool

_NUM_SIMULATIONS = 100
_GRID = (np.arange(64) + 0.5) / 64
"""Midpoints of (0, 1), for the two numbers that a population of pass rates has."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What to expect of one prompt, averaged over the prompts that were tried."""

    num_sampled: float
    """Responses drawn."""
    num_trained: float
    """Responses kept that are computed in the update."""
    signal_ratio: float
    """Share of prompts whose rewards will differ, and which the selection does not drop all the same."""
    trained_ratio: float
    """Share of prompts of which any response is computed in the update."""
    num_rounds: float = 1.0
    """Blocks that follow one another, of the prompt with the most of them: nothing can be shorter but by luck."""


def forecast(tallies: Sequence[tuple[int, int]], sampler: Sampler, selection: Selection, **options: Any) -> Forecast:
    """Return the mean of :func:`forecasts`, which takes the same arguments.

    Example:
        >>> from ada_lightning.methods.sampling import UniformSampler
        >>> from ada_lightning.methods.selection import AllSelection
        >>> forecast([(0, 8), (4, 8)], UniformSampler(group_size=4), AllSelection()).num_sampled
        4.0
    """
    return mean_forecast(forecasts(tallies, sampler, selection, **options))


def mean_forecast(steps: Sequence[Forecast]) -> Forecast:
    """Average number by number."""
    return Forecast(*map(float, np.mean([astuple(step) for step in steps], axis=0)))


def forecasts(
    tallies: Sequence[tuple[int, int]],
    sampler: Sampler,
    selection: Selection,
    *,
    keep_groups_without_signal: bool = False,
    budget: int = 0,
    seed: int = 0,
) -> list[Forecast]:
    """Run the sampler itself on coin flips: what a step comes to, in a hundred that might follow from the tallies.

    Each prompt's pass rate is uncertain after a few responses, so every simulation draws it from its posterior first.
    Its prior is learned from all prompts: none right of 8 says more where none is right of 8 others, too.

    Args:
        tallies: (positives, responses) of each prompt tried.
        sampler: the one to be forecast; any that decides on counts, or on answers (there is one right and one wrong).
            Where gradients decide, too, they are left out.
        selection: what is kept.
        keep_groups_without_signal: whether what is kept of pools whose rewards are all equal is computed too, as in
            :func:`~ada_lightning.training.packing.pack_groups`.
        budget: most responses of all these prompts together, as of ``sampler.budget_per_step``; 0 sets no limit.
        seed: of the simulation.

    Raises:
        ValueError: no prompt was tried.
    """
    if not tallies:
        raise ValueError("a forecast needs at least one prompt")
    generator = random.Random(seed)
    steps = []
    for simulation, pass_rates in enumerate(posterior_pass_rates(tallies, np.random.default_rng(seed))):
        pools = _simulated_pools(tallies, pass_rates, sampler, generator, simulation, budget or math.inf)
        trained = trained_prompts = signal = 0
        for pool, kept in zip(pools, selection.select_all(pools), strict=True):
            has_signal, is_taken = pool.has_signal, selection.takes(pool)
            is_computed = is_taken and (has_signal or keep_groups_without_signal)
            signal += has_signal and is_taken
            trained += len(kept) * is_computed
            trained_prompts += is_computed and len(kept) > 0
        steps.append(
            Forecast(
                num_sampled=sum(pool.num_drawn for pool in pools) / len(pools),
                num_trained=trained / len(pools),
                signal_ratio=signal / len(pools),
                trained_ratio=trained_prompts / len(pools),
                num_rounds=max((pool.responses[-1].round_index + 1 for pool in pools if pool.responses), default=0),
            )
        )
    return steps


def posterior_pass_rates(tallies: Sequence[tuple[int, int]], generator: np.random.Generator) -> np.ndarray:
    """Draw pass rates of all prompts, again and again: a row for each simulation, shape ``(simulations, prompts)``.

    A beta-binomial model on a grid: pass rates are Beta-distributed, with Jeffreys' prior for the mean (the grid of its
    arcsine is even) and a uniform one for the correlation of two responses to a prompt, 1 / (alpha + beta + 1).
    """
    from scipy.special import betaln, softmax

    positive, tried = np.array(tallies).T[:, :, None]
    mean, correlation = (axis.ravel() for axis in np.meshgrid(np.sin(np.pi / 2 * _GRID) ** 2, _GRID))
    alpha, beta = mean * (1 / correlation - 1), (1 - mean) * (1 / correlation - 1)
    evidence = (betaln(alpha + positive, beta + tried - positive) - betaln(alpha, beta)).sum(axis=0)
    drawn = generator.choice(len(evidence), size=_NUM_SIMULATIONS, p=softmax(evidence))
    return generator.beta(alpha[drawn, None] + positive.T, beta[drawn, None] + (tried - positive).T)


def _simulated_pools(
    tallies: Sequence[tuple[int, int]],
    pass_rates: np.ndarray,
    sampler: Sampler,
    generator: random.Random,
    simulation: int,
    budget: float,
) -> list[ResponsePool]:
    """Return the pools of one simulated step, drawn to their end and told how it came."""
    pools = [
        ResponsePool(
            Prompt("forecast", ()),
            slot,
            belief=Belief(0.5 + positive, 0.5 + tried - positive, tried, positive),
            step=simulation,  # what is left to chance follows from step and slot
        )
        for slot, (positive, tried) in enumerate(tallies)
    ]
    for stage in range(sampler.num_stages):
        sampler.plan(pools, stage)
        open_pools = pools
        while open_pools:  # block by block of all, as the budget is shared out
            going_on = []
            for pool in open_pools:
                if 0 < (num_to_draw := sampler.num_to_draw(pool)) <= budget:
                    _draw(pool, num_to_draw, pass_rates[pool.slot], generator)
                    budget -= num_to_draw
                    going_on.append(pool)
            open_pools = going_on
    for pool in pools:
        end = sampler.end(pool)
        pool.rule, pool.is_resolved_by_sampler = end.rule, end.is_resolved
    return pools


def _draw(pool: ResponsePool, num_responses: int, pass_rate: float, generator: random.Random) -> None:
    """Flip coins for a block."""
    round_index = pool.responses[-1].round_index + 1 if pool.responses else 0
    for _ in range(num_responses):
        is_positive = generator.random() < pass_rate
        pool.add(
            Response(
                prompt_id="forecast",
                sample_index=pool.num_drawn,
                round_index=round_index,
                response_ids=(),
                sampling_logprobs=(),
                text="",
                is_truncated=False,
                reward=float(is_positive),
                is_positive=is_positive,
                policy_version=0,
                answer=str(is_positive),
            )
        )
