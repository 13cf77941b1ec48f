"""What a step has seen of each prompt."""

from __future__ import annotations

from collections.abc import Iterable

from ada_lightning.core.records import ResponsePool


def tally(pools: Iterable[ResponsePool]) -> dict[str, tuple[int, int]]:
    """Return (positives, responses) by prompt id, those of a prompt that stands in the step twice added up.

    All of them come from one policy, so what is remembered of earlier ones fades once. Prompts of which no response was
    graded are left out: nothing was seen of them, so nothing of them fades and none of them becomes a known one.
    """
    return summed((pool.prompt.prompt_id, pool.num_positive, pool.num_sampled) for pool in pools)


def summed(visits: Iterable[tuple[str, int, int]]) -> dict[str, tuple[int, int]]:
    """Do the same from the prompt id, positives and responses of each visit of a step."""
    counts: dict[str, tuple[int, int]] = {}
    for prompt_id, num_positive, num_sampled in visits:
        positives, responses = counts.get(prompt_id, (0, 0))
        counts[prompt_id] = positives + num_positive, responses + num_sampled
    return {prompt_id: seen for prompt_id, seen in counts.items() if seen[1]}
