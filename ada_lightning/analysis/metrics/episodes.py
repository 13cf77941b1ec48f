"""Figures of episodes: turns, tools, time and tokens of their environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from ada_lightning.core.records import Response, ResponseGroup

ENDS = ("done", "length", "turns", "context", "failed")
"""Reasons for which an episode ends, see :class:`~ada_lightning.core.episode.Episode`."""


def episode_figures(groups: Sequence[ResponseGroup]) -> dict[str, float]:
    """Return what to log of a step's episodes by name; nothing where its responses are single turns.

    Args:
        groups: of the step; the responses that count are looked at. Of an episode whose environment failed that is one
            that is worth 0; what is no evidence is counted in ``grader/environment_<reason>``.

    Returns:
        ``env/turns`` and ``env/turns_p90`` of the model in an episode; ``env/turns_gap``: those of positives minus
        those of negatives, where there are both. ``env/calls`` of tools in an episode; ``env/call_errors``: share of
        them that could not be carried out. ``env/seconds``, ``_p90`` and ``_max`` of an answer. Shares
        ``env/ended_<reason>`` of episodes. ``env/forwarded_tokens``: all that follow the prompts, and the share
        ``env/environment_tokens`` of them that the model did not draw. ``env/pass_rate_<n>_turns``: by number of turns.
    """
    pairs = [
        (response, response.episode)
        for group in groups
        for response in group.pool.responses
        if response.episode is not None
    ]
    if not pairs:
        return {}
    episodes = [episode for _, episode in pairs]
    turns = [turn for episode in episodes for turn in episode.turns]
    numbers, seconds = [len(episode.turns) for episode in episodes], [turn.seconds for turn in turns]
    num_calls = sum(turn.num_calls for turn in turns)
    num_forwarded = sum(len(episode.is_sampled) for episode in episodes)
    ends = Counter(episode.ended_by for episode in episodes)
    figures: dict[str, float] = {
        "env/turns": fmean(numbers),
        "env/turns_p90": float(np.quantile(numbers, 0.9)),
        "env/calls": num_calls / len(episodes),
        "env/call_errors": sum(turn.num_call_errors for turn in turns) / max(num_calls, 1),
        "env/seconds": fmean(seconds),
        "env/seconds_p90": float(np.quantile(seconds, 0.9)),
        "env/seconds_max": max(seconds),
        "env/forwarded_tokens": float(num_forwarded),
        "env/environment_tokens": 1.0 - sum(episode.num_sampled for episode in episodes) / max(num_forwarded, 1),
        **{f"env/ended_{reason}": ends[reason] / len(episodes) for reason in ENDS},
    }
    return figures | _by_outcome([response for response, _ in pairs], numbers)


def _by_outcome(responses: Sequence[Response], numbers: Sequence[int]) -> dict[str, float]:
    right, wrong = (
        [number for response, number in zip(responses, numbers, strict=True) if response.is_positive is is_positive]
        for is_positive in (True, False)
    )
    gap = {"env/turns_gap": fmean(right) - fmean(wrong)} if right and wrong else {}
    counts, positives = Counter(numbers), Counter(right)
    return gap | {f"env/pass_rate_{number}_turns": positives[number] / counts[number] for number in sorted(counts)}
