from __future__ import annotations

import io
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_distribution

from ada_lightning.core.records import Belief
from ada_lightning.methods.sampling import CobaSampler
from tests.builders import make_pool
from tests.unit.methods.sampling.beliefs import GOLDEN, UNKNOWN, any_beliefs, planned, seen


def coba(*failure_rates, **settings):
    sampler = CobaSampler(**{"responses_per_prompt": 8, "tau_min": 6.0, "tau_max": 6.0} | settings)
    for rate in failure_rates:
        sampler.learn([make_pool([0.0] * round(1000 * rate) + [1.0] * round(1000 * (1 - rate)))])
    return sampler


def value(p, n, alpha, kappa, tau):
    return (1 - math.exp(-n * p * (1 - p) / tau)) * beta_distribution.pdf(p, alpha, kappa - alpha)


@pytest.mark.parametrize(
    ("failures", "alpha", "expected"),
    [(0.4, 3.42, [2, 2, 32, 8, 2, 2]), (0.7, 7.30, [2, 2, 2, 12, 28, 2])],
)
def test_golden_values(failures, alpha, expected):
    sampler = coba(failures)
    assert sampler.alpha == pytest.approx(alpha, abs=5e-3)
    assert planned(sampler, [seen(p) for p in GOLDEN]) == expected


@pytest.mark.parametrize("failures", [0.1, 0.45, 0.8])
def test_it_is_the_best_of_all_divisions_of_three_prompts(failures):
    generator = np.random.default_rng(0)
    sampler = coba(failures)
    for _ in range(20):
        rates = generator.uniform(0.02, 0.98, 3).tolist()

        def worth(counts, rates=rates):
            return sum(value(p, n, sampler.alpha, 11.0, 6.0) for p, n in zip(rates, counts, strict=True))

        best = max(worth(c) for c in itertools.product(range(2, 19), repeat=3) if sum(c) == 21)
        counts = sampler.divide([seen(p) for p in rates], 21)
        assert worth(counts) == pytest.approx(best, rel=1e-9)


def test_alpha_follows_the_failures_of_the_last_steps():
    sampler = coba(window=2)
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
    beliefs = [seen(0.15), seen(0.85)]
    weak, strong = (planned(coba(failures), beliefs) for failures in (0.9, 0.1))
    assert weak[0] < weak[1]
    assert strong[0] > strong[1]


def test_unknown_prompts_count_as_even_and_a_step_of_them_is_uniform():
    assert planned(coba(0.7), [UNKNOWN] * 5) == [8] * 5
    assert planned(coba(0.7), [UNKNOWN, seen(0.25)]) == planned(coba(0.7), [seen(0.5), seen(0.25)])
    assert planned(coba(0.7, min_seen=2000), [seen(0.1), seen(0.9)]) == [8, 8]


def test_without_a_minimum_every_prediction_counts():
    predicted = [Belief(8 * p, 8 * (1 - p)) for p in GOLDEN]
    assert planned(coba(0.4), predicted) == [8] * 6
    assert planned(coba(0.4, min_seen=0), predicted) == [2, 2, 32, 8, 2, 2]


def test_tau_grows_with_the_variance_of_pass_rates():
    sampler = coba(tau_min=3.0, tau_max=12.0)
    assert sampler._tau([0.3, 0.3]) == 3.0
    assert sampler._tau([0.1, 0.9]) == pytest.approx(3 + 9 * 0.16 / 0.1667)
    assert sampler._tau([0.01, 0.99]) == 12.0


def test_rates_of_0_and_1_are_divided_like_those_near_them():
    assert planned(coba(0.7), [seen(0.0), seen(1.0), seen(0.7)]) == planned(
        coba(0.7), [seen(0.01), seen(0.99), seen(0.7)]
    )
    assert planned(coba(0.7), [seen(0.0)] * 3) == [8] * 3


class TestBuckets:
    def buckets(self, rates, **settings):
        return planned(coba(0.7, official_buckets=True, **settings), [seen(p) for p in rates])

    def test_the_rest_goes_to_hard_prompts_by_their_failures(self):
        """24 above the lower bounds; one prompt in four is middling: 0.7 of them, 16, then 8 for the hard ones.

        The first hard one takes 8 x 1/1.98 = 4, the second 4 x 0.98/1.98 = 1, and the 3 left go evenly.
        """
        assert self.buckets([0.0, 0.02, 0.5, 1.0]) == [2 + 4 + 2, 2 + 1 + 1, 18, 2]

    def test_with_most_prompts_in_the_middle_they_get_four_fifths(self):
        counts = self.buckets([0.0, 0.4, 0.5, 0.6])
        assert counts[0] == 2 + 5  # 24 x 0.8 = 19 of 24
        middling = coba(0.7).divide([seen(p) for p in (0.4, 0.5, 0.6)], 6 + 19)
        assert counts[1:] == middling

    def test_without_hard_prompts_the_rest_goes_back_to_the_middle(self):
        assert self.buckets([0.5, 1.0]) == [2 + 9 + 3, 2]  # 12 x 0.8 = 9, then the other 3

    def test_where_all_are_easy_they_get_everything(self):
        assert self.buckets([1.0, 1.0, 0.995]) == [3, 2, 19]  # 18 by failures of 1e-6, 1e-6, 0.005: 0, 0, 17; then 1

    def test_a_full_bucket_passes_on_what_it_has_no_room_for(self):
        # The last 10 in turn by half of what is left: 5 and 2; then evenly 2, up to the limit, and 1.
        assert self.buckets([0.0, 0.5, 1.0, 1.0], n_max=9, group_size=9) == [9, 9, 9, 5]

    def test_it_differs_from_the_paper(self):
        rates = [0.0, 0.02, 0.5, 1.0]
        assert self.buckets(rates) != planned(coba(0.7), [seen(p) for p in rates])


@settings(deadline=None)  # a busy machine is no failure
@given(any_beliefs(), st.integers(2, 12), st.booleans(), st.sampled_from([0.0, 0.3, 0.9, 1.0]))
def test_the_total_is_exact_and_the_bounds_hold(beliefs, mean, buckets, failures):
    sampler = coba(failures, responses_per_prompt=mean, n_max=12, group_size=12, official_buckets=buckets)
    counts = planned(sampler, beliefs)
    assert sum(counts) == mean * len(beliefs)
    assert all(2 <= count <= 12 for count in counts)


@settings(deadline=None)
@given(st.lists(st.floats(0.02, 0.98), min_size=1, max_size=8, unique=True), st.randoms(), st.integers(2, 40))
def test_order_does_not_matter_up_to_ties_and_nobody_loses_by_a_larger_total(rates, generator, mean):
    sampler = coba(0.6)
    counts = sampler.divide([seen(p) for p in rates], mean * len(rates))
    order = list(range(len(rates)))
    generator.shuffle(order)
    shuffled = sampler.divide([seen(rates[i]) for i in order], mean * len(rates))
    assert max(abs(shuffled[place] - counts[i]) for place, i in enumerate(order)) <= 1
    more = sampler.divide([seen(p) for p in rates], mean * len(rates) + 1)
    assert all(before <= after for before, after in zip(counts, more, strict=True))


def test_a_resumed_sampler_plans_the_same():
    first, second = coba(0.9, 0.2, 0.3, 0.45, tau_max=9.0), coba(tau_max=9.0)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file, weights_only=True))
    beliefs = [seen(p) for p in GOLDEN]
    assert second.alpha == first.alpha != coba().alpha
    assert planned(second, beliefs) == planned(first, beliefs)
    for sampler in (first, second):
        sampler.learn([make_pool([0.0, 1.0, 1.0])])
    assert first.state_dict() == second.state_dict()
    assert len(first.state_dict()["failure_rates"]) == 3


def test_a_rate_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match=r"the gain of prompt \d at 2 responses is nan"):
        planned(coba(0.5), [seen(0.5), Belief(1.0, 1.0, 16.0, math.nan)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kappa": 2.0}, r"kappa must be above 2, for a density with a peak, and finite; got 2.0"),
        ({"window": 0}, r"window must be at least 1 step; got 0"),
        ({"tau_min": 7.0}, r"tau_min and tau_max must be positive, in this order, and finite; got 7.0, 6.0"),
        ({"tau_min": 0.0}, r"tau_min and tau_max must be positive"),
        ({"min_seen": -1}, r"min_seen must be 0 .* got -1"),
        ({"official_buckets": 1}, r"official_buckets must be true or false; got 1"),
        ({"responses_per_prompt": 129, "window": 0}, r"exceeds n_max = 128.*; window must be"),
    ],
)
def test_settings_that_cannot_work_are_rejected_together(change, message):
    with pytest.raises(ValueError, match=message):
        coba(**change)
