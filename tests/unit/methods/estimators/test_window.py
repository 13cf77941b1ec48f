from __future__ import annotations

import io
import json

import pytest
import torch

from ada_lightning.core.protocols import PassRateEstimator, RememberingEstimator
from ada_lightning.core.records import Belief
from ada_lightning.methods.estimators import WindowEstimator
from tests.builders import make_pool, make_prompt

PROMPT = make_prompt(7)


def belief(estimator, key=7):
    return estimator.predict([make_prompt(key)], represent=None)[0]


def visited(*visits, **settings):
    estimator = WindowEstimator(**settings)
    for rewards in visits:
        estimator.update([make_pool(rewards)])
    return estimator


def test_it_is_an_estimator_that_remembers():
    assert isinstance(WindowEstimator(), PassRateEstimator)
    assert isinstance(WindowEstimator(), RememberingEstimator)


def test_a_prompt_never_seen_has_the_prior_and_nothing_seen():
    unseen = belief(WindowEstimator(alpha=1.0, beta=3.0))
    assert unseen == Belief(1.0, 3.0)
    assert (unseen.num_seen, unseen.seen_rate) == (0.0, 0.25)


@pytest.mark.parametrize(
    ("visits", "settings", "counts"),
    [
        ([[1, 1, 0, 0]], {}, (2, 4)),
        ([[1] * 6, [0] * 4], {}, (6, 10)),  # fewer than 16: all of it
        ([[1] * 14, [0] * 4], {}, (12, 16)),  # the latest 16
        ([[1] * 3, [0] * 20], {}, (0, 20)),  # a visit that is longer counts whole
        ([[0] * 20, [1] * 4], {}, (4, 16)),  # and the next one is extended backwards to 16 again
        ([[1] * 8, [0, 1, 0]], {"window": 1}, (1, 3)),  # the last visit alone
        ([[1] * 8, [0, 1, 0]], {"window": 2, "whole_visit": False}, (1, 2)),
        ([[0] * 20, [1] * 4], {"window": 6, "whole_visit": False}, (4, 6)),
        ([[1, 1], []], {"window": 1}, (2, 2)),  # a visit without evidence is none
    ],
)
def test_counts_are_those_of_the_window(visits, settings, counts):
    estimator = visited(*([float(reward) for reward in visit] for visit in visits), **settings)
    positives, responses = counts
    found = belief(estimator)
    assert found == Belief(1.0 + positives, 1.0 + responses - positives)
    assert (found.num_seen_positive, found.num_seen) == counts
    assert found.seen_rate == positives / responses
    assert estimator.history_counts() == {"p7": counts}


def test_certain_rates_are_exact():
    assert belief(visited([0.0] * 9)).seen_rate == 0.0
    assert belief(visited([1.0] * 9)).seen_rate == 1.0


def test_prompts_have_windows_of_their_own_and_recall_says_which_were_seen():
    estimator = visited([1.0, 1.0])
    histories = estimator.recall([make_prompt(7), make_prompt(8)])
    assert [history.is_seen for history in histories] == [True, False]
    assert [history.belief for history in histories] == [Belief(3.0, 1.0), Belief(1.0, 1.0)]


def test_a_resumed_window_continues_the_same():
    first, second = visited([1.0] * 10, [0.0] * 9), WindowEstimator()
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    for estimator in (first, second):
        estimator.update([make_pool([1.0, 0.0, 0.0])])
    assert first.state_dict() == second.state_dict()
    assert belief(first) == belief(second) == Belief(1.0 + 5, 1.0 + 11)


def test_a_state_does_not_change_after_it_was_taken():
    estimator = visited([1.0])
    state = estimator.state_dict()
    estimator.update([make_pool([0.0])])
    assert state == {"rewards": {"p7": [1]}}


@pytest.mark.parametrize(
    ("counts", "seen"),
    [((2.0, 8.0), (2, 8)), ((0.0, 3.0), (0, 3)), ((3.0, 3.0), (3, 3)), ((0.3, 5.2), (1, 5)), ((0.4, 0.6), (1, 2))],
)
def test_a_history_file_is_where_it_starts(tmp_path, counts, seen):
    """Faded counts are rounded, but a mixed history stays mixed and one of a single kind stays that."""
    file = tmp_path / "history.json"
    file.write_text(json.dumps({"p7": list(counts), "p8": [0, 0]}))
    estimator = WindowEstimator(history_file=str(file))
    estimator.check_prompts([PROMPT])
    found = belief(estimator)
    assert (found.num_seen_positive, found.num_seen) == seen
    assert belief(estimator, 8).num_seen == 0


def test_a_measured_rate_gives_way_to_rewards_of_this_run(tmp_path):
    file = tmp_path / "history.json"
    file.write_text(json.dumps({"p7": [8, 16]}))
    estimator = WindowEstimator(history_file=str(file))
    estimator.update([make_pool([0.0] * 8)])
    assert (belief(estimator).num_seen_positive, belief(estimator).num_seen) == (4.0, 16.0)


def test_settings_that_cannot_work_are_rejected_together():
    with pytest.raises(
        ValueError,
        match=r"estimator.alpha must be positive and finite; got 0; estimator.beta .* got nan; estimator.window must "
        r"be at least 1; got 0; estimator.whole_visit must be true or false; got 'no'; .*none.json cannot be read",
    ):
        WindowEstimator(window=0, whole_visit="no", alpha=0, beta=float("nan"), history_file="none.json")
