"""What is remembered lags behind a policy that learns; the latest visits say by how much."""

from __future__ import annotations

import math
import random

import pytest
from scipy.optimize import minimize

from ada_lightning.methods.estimators import BetaHistory
from ada_lightning.methods.estimators.beta_history import Drift
from tests.builders import make_pool
from tests.unit.methods.estimators.test_counting import predict


def moved(rate, offset, slope):
    return 1 / (1 + math.exp(-offset - slope * math.log(rate / (1 - rate))))


def visits(offset, slope, number, seed=0):
    """Draws of eight from a policy that has moved along this line."""
    generator = random.Random(seed)
    for _ in range(number):
        rate = generator.uniform(0.05, 0.95)
        now = moved(rate, offset, slope)
        yield rate, sum(generator.random() < now for _ in range(8)), 8


def test_it_is_the_most_likely_line_under_its_prior():
    seen = list(visits(1.0, 0.7, 40))

    def loss(line):
        offset, slope = line
        rates = [moved(rate, offset, slope) for rate, _, _ in seen]
        likelihood = sum(
            positives * math.log(rate) + (n - positives) * math.log(1 - rate)
            for rate, (_, positives, n) in zip(rates, seen, strict=True)
        )
        return -likelihood + (offset**2 + (slope - 1) ** 2) / 2

    drift = Drift(40)
    drift.observe(seen)
    best = minimize(loss, (0.0, 1.0), tol=1e-10).x
    assert (drift.offset, drift.slope) == pytest.approx(tuple(best), abs=1e-4)  # what minimize itself reaches
    assert drift.corrected(0.3) == pytest.approx(moved(0.3, *best), abs=1e-4)


def test_without_visits_nothing_is_known_and_few_say_little():
    drift = Drift(256)
    assert not drift.is_known
    drift.observe([(0.5, 4, 4)])
    assert 0.5 < drift.corrected(0.5) < 0.8


@pytest.mark.parametrize(
    "seen",
    [[(0.0, 8, 8), (1.0, 0, 8)] * 32, [(0.3, 0, 4), (0.7, 4, 4)] * 128, [(0.5, 4, 4)] * 256],
    ids=["upside down", "told apart without fail", "always right"],
)
def test_no_rate_becomes_certain(seen):
    """A belief of exactly 0 or 1 would be no Beta distribution."""
    drift = Drift(256)
    drift.observe(seen)
    for rate in (0.0, 1e-9, 0.5, 1 - 1e-9, 1.0):
        assert 0 < drift.corrected(rate) < 1


def test_old_visits_are_forgotten():
    drift = Drift(50)
    drift.observe(list(visits(-2.0, 1.0, 50)))
    drift.observe(list(visits(2.0, 1.0, 50, seed=1)))
    alone = Drift(50)
    alone.observe(list(visits(2.0, 1.0, 50, seed=1)))
    assert (drift.offset, drift.slope) == (alone.offset, alone.slope)


def history_of_a_policy_that_learned(**options):
    """Forty prompts of which one in four was right, then all four: what is left is what to expect of the others."""
    history = BetaHistory(**options)
    history.update([make_pool([1.0, 0.0, 0.0, 0.0], key=key) for key in range(80)])
    for first in range(0, 40, 8):
        history.update([make_pool([1.0, 1.0, 1.0, 0.0], key=key) for key in range(first, first + 8)])
    return history


def test_prompts_that_were_not_seen_since_are_expected_to_have_moved_too():
    stale, moved_on = (history_of_a_policy_that_learned(drift_visits=visits) for visits in (0, 256))
    assert predict(stale, 60).mean < 0.5
    assert predict(moved_on, 60).mean > 0.6
    assert predict(moved_on, 999) == predict(stale, 999)  # never seen: the prior
    before, after = predict(stale, 60), predict(moved_on, 60)
    assert after.alpha + after.beta == pytest.approx(before.alpha + before.beta)
    assert (after.num_seen, after.num_seen_positive) == (before.num_seen, before.num_seen_positive)


def test_a_restored_history_knows_the_drift_to_the_bit():
    history = history_of_a_policy_that_learned(drift_visits=32)
    restored = BetaHistory(drift_visits=32)
    restored.load_state_dict(history.state_dict())
    assert [predict(restored, key) for key in range(90)] == [predict(history, key) for key in range(90)]
