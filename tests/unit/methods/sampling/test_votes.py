"""The log odds of a majority against the ratio of likelihoods that they stand for, over all short histories."""

from __future__ import annotations

import itertools
import math

import pytest

from ada_lightning.methods.sampling.optpo import majority_answer, majority_log_odds


def log_likelihood(votes, truth, accuracy):
    """Of the votes where ``truth`` is the consensus: it has ``accuracy``, the others share the rest evenly."""
    candidates = max(len(set(votes)), 2)
    return sum(math.log(accuracy if vote == truth else (1 - accuracy) / (candidates - 1)) for vote in votes)


@pytest.mark.parametrize("accuracy", [0.55, 0.7, 0.95])
def test_log_odds_are_the_ratio_of_likelihoods_of_leader_and_runner_up(accuracy):
    for length in range(1, 7):
        for answers in itertools.product(["a", "b", "c", None], repeat=length):
            votes = [answer for answer in answers if answer is not None]
            ranked = sorted(set(votes), key=votes.count, reverse=True)
            expected = 0.0
            if ranked:
                runner_up = ranked[1] if len(ranked) > 1 else "an answer that nobody gave"
                expected = log_likelihood(votes, ranked[0], accuracy) - log_likelihood(votes, runner_up, accuracy)
            assert majority_log_odds(answers, vote_accuracy=accuracy) == pytest.approx(expected, abs=1e-9)


def test_the_first_of_equally_frequent_answers_leads():
    assert majority_answer(["b", "a", "a", "b", None]) == "b"
    assert majority_answer(["b", "a", "a"]) == "a"
    assert majority_answer([None, None]) is None
    assert majority_answer([]) is None
    assert majority_log_odds(["b", "a"], vote_accuracy=0.9) == 0
