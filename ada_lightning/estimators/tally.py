"""What a step has seen of each prompt."""

from __future__ import annotations

from collections.abc import Iterable

from ada_lightning.types import ResponsePool


def tally(pools: Iterable[ResponsePool]) -> dict[str, tuple[int, int]]:
    """Return (positives, responses) by prompt id, those of a prompt that stands in the step twice added up.

    All of them come from one policy, so what is remembered of earlier ones fades once. Prompts of which no response was
    graded are left out: nothing was seen of them, so nothing of them fades and none of them becomes a known one.
    """
    counts: dict[str, tuple[int, int]] = {}
    for pool in pools:
        positives, responses = counts.get(pool.prompt.prompt_id, (0, 0))
        counts[pool.prompt.prompt_id] = positives + pool.num_positive, responses + pool.num_sampled
    return {prompt_id: seen for prompt_id, seen in counts.items() if seen[1]}
