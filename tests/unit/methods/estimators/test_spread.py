"""Prompts whose responses differ, told from prompts that are right half of the time between them."""

from __future__ import annotations

import random
from math import comb

import numpy as np
import pytest

from ada_lightning.core.records import Prompt
from ada_lightning.methods.estimators import SimilarPrompts, WordEmbedding
from ada_lightning.methods.estimators.logit_prior import _NOISE, expected_spread, shown_spread, with_spread


@pytest.mark.parametrize("num_responses", [2, 4, 7])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_what_responses_show_is_right_on_average(num_responses, rate):
    chances = [comb(num_responses, k) * rate**k * (1 - rate) ** (num_responses - k) for k in range(num_responses + 1)]
    shown = [shown_spread(k, num_responses) for k in range(num_responses + 1)]
    assert np.dot(chances, shown) == pytest.approx(rate * (1 - rate), abs=1e-12)
    if num_responses == 4 and rate:
        assert np.sqrt(np.dot(chances, np.square(shown)) - (rate * (1 - rate)) ** 2) == pytest.approx(_NOISE, abs=0.02)


def test_one_response_shows_nothing():
    assert np.isnan(shown_spread(1, 1))


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.1, 0.2, 0.25])
def test_a_belief_keeps_its_mean_and_takes_the_spread_as_far_as_that_allows(spread):
    alpha_P, beta_P = np.array([3.0, 0.2, 40.0]), np.array([1.0, 5.0, 40.0])
    new = with_spread(alpha_P, beta_P, np.full(3, spread))
    mean_P = alpha_P / (alpha_P + beta_P)
    assert new[0] / (new[0] + new[1]) == pytest.approx(mean_P)
    most_P = mean_P * (1 - mean_P)
    assert expected_spread(*new) == pytest.approx(np.clip(spread, 0.02 * most_P, 0.98 * most_P))


def prompt(kind, number):
    """Of a kind that its words tell; no two prompts read alike."""
    return Prompt(f"{kind}{number}", ({"role": "user", "content": f"please answer the {kind} question {number}"},))


def learned(spread_scale, num_steps=12):
    """Half of the responses to each kind are right: of each prompt with even chances, or of every other prompt all."""
    generator = random.Random(0)
    prompts = [prompt(kind, number) for kind in ("even", "sure") for number in range(200)]
    estimator = SimilarPrompts(embedding=WordEmbedding(), spread_scale=spread_scale, num_visits=256)
    estimator.check_prompts(prompts)
    for step in range(num_steps):
        visits = [(prompt("even", 8 * step + k), sum(generator.random() < 0.5 for _ in range(4)), 4) for k in range(8)]
        visits += [(prompt("sure", 8 * step + k), 4 * generator.randrange(2), 4) for k in range(8)]
        estimator.learn(visits)
    return estimator


def spread_of(estimator, *prompts):
    beliefs = estimator.recall(prompts)
    return expected_spread(np.array([b.alpha for b in beliefs]), np.array([b.beta for b in beliefs]))


def test_prompts_never_seen_are_told_apart_by_how_responses_to_others_differed():
    unseen = prompt("even", 199), prompt("sure", 199)
    by_rates, by_spread = learned(0.0), learned(0.1)
    even, sure = spread_of(by_rates, *unseen)
    assert abs(even - sure) < 0.03  # pass rates alone do not tell
    even, sure = spread_of(by_spread, *unseen)
    assert even > 0.15
    assert sure < 0.05
    means = [[belief.mean for belief in estimator.recall(unseen)] for estimator in (by_rates, by_spread)]
    assert means[0] == pytest.approx(means[1])


def test_a_restored_estimator_expects_the_same_and_one_of_an_older_checkpoint_begins_anew():
    estimator, unseen = learned(0.1, num_steps=4), [prompt("even", 199), prompt("sure", 199), prompt("sure", 3)]
    state = estimator.state_dict()
    restored = learned(0.1, num_steps=0)
    restored.load_state_dict(state)
    assert spread_of(restored, *unseen) == pytest.approx(spread_of(estimator, *unseen), rel=1e-9)
    older = learned(0.1, num_steps=0)
    older.load_state_dict(state | {"visits": [visit[:4] for visit in state["visits"]]})
    assert spread_of(older, *unseen) == pytest.approx(spread_of(learned(0.0, num_steps=4), *unseen), rel=1e-6)
