"""What a sampler will cost and yield, from a few responses per prompt."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ada_lightning.core.protocols import Sampler, Selection
from ada_lightning.core.records import Belief, Prompt, Response, ResponsePool

_SIMULATIONS_PER_PROMPT = 100


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expectations for one prompt, averaged over the prompts that were tried."""

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


def forecast(
    tallies: Sequence[tuple[int, int]],
    sampler: Sampler,
    selection: Selection,
    *,
    keep_groups_without_signal: bool = False,
    seed: int = 0,
) -> Forecast:
    """Run the sampler itself on simulated coin flips.

    Each prompt's pass rate is uncertain after a few responses, so every simulation draws it from the posterior
    Beta(1/2 + positives, 1/2 + negatives) (Jeffreys prior) first.

    Args:
        tallies: (positives, responses) of each prompt tried.
        sampler: the one to be forecast; any that decides on counts, or on answers (there is one right and one wrong).
            Where gradients decide, too, they are left out.
        selection: what is kept.
        keep_groups_without_signal: whether what is kept of pools whose rewards are all equal is computed too, as in
            :func:`~ada_lightning.training.packing.pack_groups`.
        seed: of the simulation.

    Raises:
        ValueError: no prompt was tried.

    Example:
        >>> from ada_lightning.methods.sampling import UniformSampler
        >>> from ada_lightning.methods.selection import AllSelection
        >>> forecast([(0, 8), (4, 8)], UniformSampler(group_size=4), AllSelection()).num_sampled
        4.0
    """
    if not tallies:
        raise ValueError("a forecast needs at least one prompt")
    generator = random.Random(seed)
    sampled = trained = trained_prompts = signal = num_rounds = 0
    for simulation in range(_SIMULATIONS_PER_PROMPT):
        pools = _simulated_pools(tallies, sampler, generator, simulation)
        sampled += sum(pool.num_drawn for pool in pools)
        num_rounds += max((pool.responses[-1].round_index + 1 for pool in pools if pool.responses), default=0)
        for pool, kept in zip(pools, selection.select_all(pools), strict=True):
            has_signal, is_taken = pool.has_signal, selection.takes(pool)
            is_computed = is_taken and (has_signal or keep_groups_without_signal)
            signal += has_signal and is_taken
            trained += len(kept) * is_computed
            trained_prompts += is_computed and len(kept) > 0
    total = len(tallies) * _SIMULATIONS_PER_PROMPT
    return Forecast(
        num_sampled=sampled / total,
        num_trained=trained / total,
        signal_ratio=signal / total,
        trained_ratio=trained_prompts / total,
        num_rounds=num_rounds / _SIMULATIONS_PER_PROMPT,
    )


def _simulated_pools(
    tallies: Sequence[tuple[int, int]], sampler: Sampler, generator: random.Random, simulation: int
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
    pass_rates: list[float] = []
    for stage in range(sampler.num_stages):
        sampler.plan(pools, stage)
        for slot, pool in enumerate(pools):
            if stage == 0:
                pass_rates.append(generator.betavariate(pool.belief.alpha, pool.belief.beta))
            _simulate(pool, pass_rates[slot], sampler, generator)
    for pool in pools:
        end = sampler.end(pool)
        pool.rule, pool.is_resolved_by_sampler = end.rule, end.is_resolved
    return pools


def _simulate(pool: ResponsePool, pass_rate: float, sampler: Sampler, generator: random.Random) -> None:
    """Draw what the sampler asks for."""
    while (num_to_draw := sampler.num_to_draw(pool)) > 0:
        round_index = pool.responses[-1].round_index + 1 if pool.responses else 0
        for _ in range(num_to_draw):
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
