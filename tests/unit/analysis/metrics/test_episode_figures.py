from __future__ import annotations

from dataclasses import replace

import pytest

from ada_lightning.analysis.metrics.rollout import episode_figures
from ada_lightning.core.episode import Episode, Turn
from tests.builders import make_group


def test_figures_of_episodes_are_means_over_episodes_calls_and_answers():
    group = make_group([1.0, 0.0, 0.0], num_tokens=[6, 2, 2])
    episodes = (
        Episode(
            (Turn("a", "b", 2, 1, 0.5), Turn("c", "d", 1, 0, 0.1), Turn("e", "", 0, 0, 0.3)), (True, False) * 3, "done"
        ),
        Episode((Turn("a", "", 1, 1, 0.1),), (True, True), "length"),
        Episode((Turn("a", "", 0, 0, 0.0),), (True, True), "done"),
    )
    group.pool.responses = [
        replace(response, episode=episode) for response, episode in zip(group.pool.responses, episodes, strict=True)
    ]
    figures = episode_figures([group])
    expected = {
        "env/turns": 5 / 3,
        "env/turns_p90": 2.6,  # a fifth of the way from 3 to 1, sorted 1 1 3
        "env/calls": 4 / 3,
        "env/call_errors": 2 / 4,
        "env/seconds": 0.2,
        "env/seconds_p90": 0.42,
        "env/seconds_max": 0.5,
        "env/forwarded_tokens": 10,
        "env/environment_tokens": 0.3,
        "env/ended_done": 2 / 3,
        "env/ended_length": 1 / 3,
        "env/ended_turns": 0,
        "env/ended_context": 0,
        "env/ended_failed": 0,
        "env/turns_gap": 2,
        "env/pass_rate_1_turns": 0,
        "env/pass_rate_3_turns": 1,
    }
    assert figures == pytest.approx(expected)


def test_single_turns_have_none():
    assert episode_figures([make_group([1.0, 0.0])]) == {}
