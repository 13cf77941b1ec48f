from __future__ import annotations

import pytest

from ada_lightning.core.records import Belief
from ada_lightning.methods.estimators import BetaHistory, EmaEstimator, WindowEstimator
from ada_lightning.methods.estimators.pooled_prior import fit_pooled_prior
from tests.builders import make_pool, make_prompt


def predict(history, key):
    (belief,) = history.predict([make_prompt(key)], lambda prompts: pytest.fail("no representation is needed"))
    return belief


def test_an_unseen_prompt_gets_the_prior_and_a_seen_one_its_counts_on_top():
    history = BetaHistory()
    history.update([make_pool([1.0, 0.0, 0.0, 0.0], key=1)])
    assert predict(history, 2) == Belief(1.0, 1.0)
    assert predict(history, 1) == Belief(2.0, 4.0)


def test_counts_fade_with_every_visit_of_their_own():
    history = BetaHistory(memory=0.5)
    history.update([make_pool([1.0, 0.0], key=1)])
    history.update([make_pool([0.0, 0.0], key=2)])
    history.update([make_pool([1.0, 1.0], key=1)])
    assert predict(history, 1) == Belief(1 + 0.5 + 2, 1 + 0.5)


@pytest.mark.parametrize("make", [lambda: BetaHistory(memory=0.5), lambda: EmaEstimator(decay=0.5)])
def test_a_prompt_that_stands_in_a_step_twice_was_visited_once(make):
    """Both pools come from one policy; what was known before fades once."""
    twice, once = make(), make()
    for estimator in (twice, once):
        estimator.update([make_pool([1.0, 0.0], key=1)])
    twice.update([make_pool([1.0, 0.0], key=1), make_pool([1.0, 1.0], key=1)])
    once.update([make_pool([1.0, 0.0, 1.0, 1.0], key=1)])
    assert twice.history_counts() == once.history_counts()
    ((positives, responses),) = once.history_counts().values()
    assert (positives, responses) == (0.5 * 1 + 3, 0.5 * 2 + 4)


def test_the_prior_follows_what_prompts_are_like():
    history = BetaHistory()
    history.update([make_pool([0.0] * 8, key=key) for key in range(30)] + [make_pool([1.0] + [0.0] * 7, key=99)])
    assert predict(history, 1000).mean < 0.05


def test_the_prior_of_a_known_mix_is_found():
    """Counts of 400 prompts from Beta(0.5, 2), eight responses each; the grid's step in strength is a factor 2."""
    import random

    generator = random.Random(0)
    outcomes = []
    for _ in range(400):
        rate = generator.betavariate(0.5, 2.0)
        outcomes.append((sum(generator.random() < rate for _ in range(8)), 8))
    prior = fit_pooled_prior(outcomes)
    assert prior.mean == pytest.approx(0.2, abs=0.051)
    assert 1.25 <= prior.alpha + prior.beta <= 5


def test_few_outcomes_say_nothing():
    assert fit_pooled_prior([(0, 4)] * 15) == Belief(1.0, 1.0)


def test_a_restored_history_predicts_the_same():
    history = BetaHistory()
    history.update([make_pool([float(key % 3 == 0)] * 4, key=key) for key in range(40)])
    restored = BetaHistory()
    restored.load_state_dict(history.state_dict())
    assert [predict(restored, key) for key in range(50)] == [predict(history, key) for key in range(50)]


def test_memory_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"estimator.memory must be in \[0, 1\]; got 1.5"):
        BetaHistory(memory=1.5)


@pytest.mark.parametrize("make", [BetaHistory, EmaEstimator, WindowEstimator])
def test_an_outage_of_the_graders_leaves_everything_as_it_was(make):
    """No response of the step was graded: nothing fades, and no prompt counts as seen."""
    history = make()
    history.update([make_pool([1.0, 0.0, 0.0, 0.0], key=1), make_pool([0.0, 0.0], key=2)])
    before = history.state_dict()
    for _ in range(20):
        history.update([make_pool([], key=1), make_pool([], key=3)])
    assert history.state_dict() == before
    assert [known.is_seen for known in history.recall([make_prompt(1), make_prompt(3)])] == [True, False]


def test_of_a_prompt_drawn_twice_the_graded_half_counts():
    history = EmaEstimator(decay=0.5)
    history.update([make_pool([1.0, 0.0], key=1)])
    history.update([make_pool([], key=1), make_pool([1.0], key=1)])
    assert history.history_counts() == {"p1": (1.5, 2.0)}
