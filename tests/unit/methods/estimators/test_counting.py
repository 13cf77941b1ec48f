"""Estimators that keep what each prompt's own responses say: counts that fade, a window, and what they share."""

from __future__ import annotations

import io
import random

import pytest
import torch

from ada_lightning.adapters.json_state import to_json
from ada_lightning.core.protocols import Trait
from ada_lightning.core.records import Belief
from ada_lightning.methods.estimators import BetaHistory, EmaEstimator, WindowEstimator
from ada_lightning.methods.estimators.beta_history import fit_pooled_prior
from tests.builders import make_pool, make_prompt

KINDS = [BetaHistory, EmaEstimator, WindowEstimator]
every_kind = pytest.mark.parametrize("kind", KINDS)


def predict(estimator, key=7):
    (belief,) = estimator.predict([make_prompt(key)], lambda prompts: pytest.fail("no representation is needed"))
    return belief


def visit(estimator, num_positive, num_sampled=8, key=7):
    estimator.update([make_pool([1.0] * num_positive + [0.0] * (num_sampled - num_positive), key=key)])


@every_kind
def test_what_is_remembered_is_what_is_predicted_with_whether_it_was_seen(kind):
    estimator = kind()
    assert estimator.remembers_prompts
    assert Trait.SHARES_EVIDENCE not in estimator.traits
    visit(estimator, 3)
    asked = [make_prompt(7), make_prompt(8)]
    recalled = estimator.recall(asked)
    assert [belief.is_seen for belief in recalled] == [True, False]
    assert recalled == estimator.predict(asked, None)
    assert (recalled[0].num_seen, recalled[0].num_seen_positive) == (8, 3)
    assert recalled[1].num_seen == 0
    assert estimator.history_counts() == {"p7": (3, 8)}


@every_kind
def test_nothing_fades_between_visits_of_ones_own(kind):
    estimator = kind()
    visit(estimator, 3)
    before = predict(estimator)
    visit(estimator, 8, key=8)
    assert predict(estimator) == before


@every_kind
def test_a_resumed_estimator_goes_on_as_if_nothing_had_happened(kind):
    """Through a file, with enough prompts for a prior to be fitted; the state does not change after it was taken."""
    first, second, file = kind(), kind(), io.BytesIO()
    for key in range(40):
        visit(first, 4 * (key % 3 == 0), 4, key=key)
    state = first.state_dict()
    torch.save(state, file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    for estimator in (first, second):
        visit(estimator, 5)
    file.seek(0)
    assert to_json(state) == to_json(torch.load(file, weights_only=True))
    assert [predict(first, key) for key in range(50)] == [predict(second, key) for key in range(50)]
    assert to_json(first.state_dict()) == to_json(second.state_dict())
    assert first.history_counts() == second.history_counts()


@every_kind
def test_an_outage_of_the_graders_leaves_everything_as_it_was(kind):
    """No response of the step was graded: nothing fades, and no prompt counts as seen."""
    estimator = kind()
    estimator.update([make_pool([1.0, 0.0, 0.0, 0.0], key=1), make_pool([0.0, 0.0], key=2)])
    before = to_json(estimator.state_dict())
    for _ in range(20):
        estimator.update([make_pool([], key=1), make_pool([], key=3)])
    assert to_json(estimator.state_dict()) == before
    assert not estimator.recall([make_prompt(3)])[0].is_seen


@pytest.mark.parametrize("make", [lambda: BetaHistory(memory=0.5), lambda: EmaEstimator(decay=0.5)])
def test_a_prompt_that_stands_in_a_step_twice_was_visited_once_with_what_was_graded(make):
    """Both pools come from one policy; what was known before fades once."""
    twice, once, half = make(), make(), make()
    for estimator in (twice, once, half):
        visit(estimator, 1, 2, key=1)
    twice.update([make_pool([1.0, 0.0], key=1), make_pool([1.0, 1.0], key=1)])
    visit(once, 3, 4, key=1)
    assert twice.history_counts() == once.history_counts() == {"p1": (0.5 * 1 + 3, 0.5 * 2 + 4)}
    half.update([make_pool([], key=1), make_pool([1.0], key=1)])
    assert half.history_counts() == {"p1": (1.5, 2.0)}


def test_beta_counts_fade_with_every_visit_and_stand_on_the_prior():
    history = BetaHistory(memory=0.5)
    visit(history, 1, 2)
    visit(history, 2, 2)
    assert predict(history) == Belief(1 + 0.5 + 2, 1 + 0.5)
    assert predict(history, 8) == Belief(1.0, 1.0)


def test_the_prior_of_beta_follows_what_prompts_are_like():
    history = BetaHistory()
    history.update([make_pool([0.0] * 8, key=key) for key in range(30)] + [make_pool([1.0] + [0.0] * 7, key=99)])
    assert predict(history, 1000).mean < 0.05


def test_the_prior_of_a_known_mix_is_found_and_few_outcomes_say_nothing():
    """Counts of 400 prompts from Beta(0.5, 2), eight responses each; the grid's step in strength is a factor 2."""
    generator = random.Random(0)
    rates = [generator.betavariate(0.5, 2.0) for _ in range(400)]
    prior = fit_pooled_prior([(sum(generator.random() < rate for _ in range(8)), 8) for rate in rates])
    assert prior.mean == pytest.approx(0.2, abs=0.051)
    assert 1.25 <= prior.alpha + prior.beta <= 5
    assert fit_pooled_prior([(0, 4)] * 15) == Belief(1.0, 1.0)


def test_ema_counts_fade_and_grow_with_every_visit():
    estimator = EmaEstimator()
    assert predict(estimator).mean == 1 / 17
    visit(estimator, 3)
    assert predict(estimator) == Belief(1 + 3, 16 + 5)
    visit(estimator, 8)
    assert predict(estimator).alpha == pytest.approx(1 + 0.9 * 3 + 8)
    assert predict(estimator).mean == pytest.approx(11.7 / (17 + 0.9 * 8 + 8))
    assert predict(EmaEstimator(alpha=2, beta=2)).mean == 0.5


@pytest.mark.parametrize(("num_positive", "expected", "published"), [(0, 1 / 97, 0.010), (8, 81 / 97, 0.835)])
def test_ema_predictions_stay_between_the_published_steady_states(num_positive, expected, published):
    """Reference section 2.3: 8 responses per visit and decay 0.9 give 80 responses and [0.010, 0.835]."""
    estimator = EmaEstimator()
    for _ in range(400):  # 0.9^400 is below float precision
        visit(estimator, num_positive)
    assert estimator.history_counts()["p7"][1] == pytest.approx(80)
    assert predict(estimator).mean == pytest.approx(expected)
    assert round(expected, 3) == published


@pytest.mark.parametrize(
    ("visits", "settings", "counts"),
    [
        ([[1, 1, 0, 0]], {}, (2, 4)),
        ([[0] * 9], {}, (0, 9)),
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
def test_window_counts_its_latest_rewards(visits, settings, counts):
    estimator = WindowEstimator(beta=3.0, **settings)
    assert predict(estimator) == Belief(1.0, 3.0)
    assert predict(estimator).seen_rate == 0.25
    for rewards in visits:
        estimator.update([make_pool([float(reward) for reward in rewards])])
    positives, responses = counts
    found = predict(estimator)
    assert found == Belief(1.0 + positives, 3.0 + responses - positives)
    assert (found.num_seen_positive, found.num_seen) == counts
    assert found.seen_rate == positives / responses
    assert estimator.history_counts() == {"p7": counts}


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (EmaEstimator, {"alpha": 0}, r"estimator.alpha must be positive and finite; got 0"),
        (EmaEstimator, {"beta": -1.0}, r"estimator.beta must be positive and finite; got -1.0"),
        (
            EmaEstimator,
            {"alpha": 0, "decay": 2, "history_file": "none.json"},
            r"alpha must .*; estimator.decay must be in \[0, 1\]; got 2; estimator.history_file none.json cannot",
        ),
        (
            BetaHistory,
            {"memory": 2, "drift_visits": -1, "history_file": "none.json"},
            r"memory must be in \[0, 1\]; got 2; .*drift_visits must not be negative; got -1; .* none.json cannot",
        ),
        (
            WindowEstimator,
            {"window": 0, "whole_visit": "no", "alpha": 0, "beta": float("nan"), "history_file": "none.json"},
            r"alpha must be positive and finite; got 0; .*beta .* got nan; estimator.window must be at least 1; "
            r"got 0; estimator.whole_visit must be true or false; got 'no'; .*none.json cannot be read",
        ),
    ],
)
def test_settings_that_cannot_work_are_rejected_together(make, settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)
