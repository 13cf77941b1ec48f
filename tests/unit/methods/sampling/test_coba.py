"""CoBA-RL: the density that follows the failures, what is not known, and the public code's three buckets."""

from __future__ import annotations

import io
import math

import pytest
import torch

from ada_lightning.core.records import Belief
from ada_lightning.methods.published.coba import CobaSampler
from tests.builders import make_pool
from tests.unit.methods.sampling.planning import GOLDEN, UNKNOWN, planned, seen
from tests.unit.methods.sampling.test_planned import coba


def test_alpha_follows_the_failures_of_the_last_steps():
    sampler = CobaSampler(responses_per_prompt=8, window=2)
    assert sampler.alpha == 9.0  # kappa - 2 before anything is known
    sampler.learn([make_pool([0.0, 0.0, 0.0, 1.0])])
    assert sampler.alpha == pytest.approx(1 + 9 * 0.75)
    sampler.learn([make_pool([0.0, 1.0]), make_pool([1.0]), make_pool([])])  # 1/2 and 0; nothing of the last
    assert sampler.alpha == pytest.approx(1 + 9 / (1 + math.exp(-10 * ((0.75 + 0.25) / 2 - 0.5))))
    sampler.learn([make_pool([1.0])])  # the first step is out of the window
    assert sampler.alpha == pytest.approx(1 + 9 / (1 + math.exp(-10 * (0.125 - 0.5))))
    sampler.learn([make_pool([])])
    assert sampler.alpha == pytest.approx(1 + 9 / (1 + math.exp(-10 * (0.125 - 0.5))))


def test_a_weak_policy_gets_easy_prompts_and_a_strong_one_hard_ones():
    weak, strong = (planned(coba(failures), [seen(0.15), seen(0.85)]) for failures in (0.9, 0.1))
    assert weak[0] < weak[1]
    assert strong[0] > strong[1]


def test_unknown_prompts_count_as_even_unless_every_prediction_counts():
    assert planned(coba(0.7), [UNKNOWN, seen(0.25)]) == planned(coba(0.7), [seen(0.5), seen(0.25)])
    assert planned(coba(0.7, min_seen=2000), [seen(0.1), seen(0.9)]) == [8, 8]
    predicted = [Belief(8 * p, 8 * (1 - p)) for p in GOLDEN]
    assert planned(coba(0.4), predicted) == [8] * 6
    assert planned(coba(0.4, min_seen=0), predicted) == [2, 2, 32, 8, 2, 2]


def test_tau_is_its_smallest_where_rates_agree_and_its_largest_where_they_differ_most():
    ranging, low, high = (coba(0.5, tau_min=a, tau_max=b) for a, b in ((3.0, 12.0), (3.0, 3.0), (12.0, 12.0)))
    differing = [seen(p) for p in (0.01, 0.99, 0.3, 0.97, 0.02)]
    assert planned(ranging, [seen(0.3), seen(0.35)]) == planned(low, [seen(0.3), seen(0.35)])
    assert planned(ranging, differing) == planned(high, differing)


def test_rates_of_0_and_1_are_divided_like_those_near_them():
    assert planned(coba(0.7), [seen(0.0), seen(1.0), seen(0.7)]) == planned(
        coba(0.7), [seen(0.01), seen(0.99), seen(0.7)]
    )


def test_a_resumed_sampler_plans_the_same():
    first, second = coba(0.9, tau_max=9.0), coba(0.1, tau_max=9.0)
    for failures in (0.2, 0.3, 0.45):
        first.learn([make_pool([0.0] * round(100 * failures) + [1.0] * round(100 * (1 - failures)))])
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    beliefs = [seen(p) for p in GOLDEN]
    assert second.alpha == first.alpha != CobaSampler(responses_per_prompt=8).alpha
    assert planned(second, beliefs) == planned(first, beliefs)
    for sampler in (first, second):
        sampler.learn([make_pool([0.0, 1.0, 1.0])])
    assert first.state_dict() == second.state_dict()
    assert len(first.state_dict()["failure_rates"]) == 3
