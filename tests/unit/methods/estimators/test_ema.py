from __future__ import annotations

import pytest

from ada_lightning.core.protocols import PassRateEstimator
from ada_lightning.methods.estimators import EmaEstimator
from tests.builders import make_pool, make_prompt


def no_representation(prompts):
    raise AssertionError("an average of outcomes needs no forward pass")


def predicted(estimator, key=7):
    (belief,) = estimator.predict([make_prompt(key)], no_representation)
    return belief


def visit(estimator, num_positive, num_sampled=8, key=7):
    estimator.update([make_pool([1.0] * num_positive + [0.0] * (num_sampled - num_positive), key=key)])


def test_it_is_an_estimator():
    assert isinstance(EmaEstimator(), PassRateEstimator)


def test_a_prompt_never_seen_is_expected_to_pass_once_in_17():
    assert predicted(EmaEstimator()).mean == 1 / 17


def test_counts_fade_and_grow_with_every_visit():
    estimator = EmaEstimator()
    visit(estimator, 3)
    assert (predicted(estimator).alpha, predicted(estimator).beta) == (1 + 3, 16 + 5)
    visit(estimator, 8)
    # 0.9 * 3 + 8 positives, 0.9 * 8 + 8 responses
    assert predicted(estimator).alpha == pytest.approx(1 + 10.7)
    assert predicted(estimator).mean == pytest.approx(11.7 / (17 + 15.2))


@pytest.mark.parametrize(("num_positive", "expected"), [(0, 1 / 97), (8, 81 / 97)])
def test_predictions_stay_between_the_published_steady_states(num_positive, expected):
    """Reference section 2.3: 8 responses per visit and decay 0.9 give 80 responses and [0.010, 0.835]."""
    estimator = EmaEstimator()
    for _ in range(400):  # 0.9^400 is below float precision
        visit(estimator, num_positive)
    assert estimator.history_counts()["p7"][1] == pytest.approx(80)
    assert predicted(estimator).mean == pytest.approx(expected)
    assert round(expected, 3) in (0.010, 0.835)


def test_nothing_fades_between_visits():
    estimator = EmaEstimator()
    visit(estimator, 3)
    before = predicted(estimator)
    visit(estimator, 8, key=8)
    assert predicted(estimator) == before


def test_a_prior_of_ones_own():
    assert predicted(EmaEstimator(alpha=2, beta=2)).mean == 0.5


def test_a_resumed_estimator_goes_on_as_if_nothing_had_happened():
    first, second = EmaEstimator(), EmaEstimator()
    visit(first, 3)
    second.load_state_dict(first.state_dict())
    for estimator in (first, second):
        visit(estimator, 5)
    assert predicted(first) == predicted(second)
    assert first.state_dict() == second.state_dict()


def test_a_state_does_not_change_after_it_was_taken():
    estimator = EmaEstimator()
    visit(estimator, 3)
    state = estimator.state_dict()
    visit(estimator, 5)
    assert state == {"counts": {"p7": [3.0, 8.0]}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0}, r"estimator.alpha must be positive and finite; got 0"),
        ({"beta": -1.0}, r"estimator.beta must be positive and finite; got -1.0"),
        ({"decay": 1.1}, r"estimator.decay must be in \[0, 1\]; got 1.1"),
        (
            {"alpha": 0, "decay": 2, "history_file": "none.json"},
            r"alpha must be .*; estimator.decay must be .*; estimator.history_file none.json cannot be read",
        ),
    ],
)
def test_settings_that_cannot_work_are_rejected_together(settings, message):
    with pytest.raises(ValueError, match=message):
        EmaEstimator(**settings)
