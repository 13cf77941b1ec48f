import math
from dataclasses import replace
from itertools import pairwise

import pytest

from ada_lightning.methods.estimators.logit_prior import LARGEST_SCALE, LogitPrior, ScaleSearch

START = LogitPrior(
    base_scale=2.0, drift_scale=1.0, drift_visits=256.0, similar_scale=2.0, own_scale=2.0, prompt_drift_visits=1024.0
)


@pytest.fixture
def asked():
    return []


@pytest.fixture
def evidence(asked):
    """Every prior explains the visits as well; the priors that were asked about are kept."""
    return lambda prior: asked.append(prior) or 0.0


def more(prior):
    """Visits that a larger own scale explains better."""
    return prior.own_scale


def nobody(prior):
    pytest.fail("asked")


def loaded(state, start=START, **settings):
    search = ScaleSearch(start, **({"width": 1.0} | settings))
    search.load_state_dict(state)
    return search


def test_it_tries_one_scale_per_eight_visits(asked, evidence):
    search = ScaleSearch(START, width=1.0)
    assert not search.improve(7, evidence)
    assert asked == []
    assert not search.improve(8, evidence)
    assert [prior.own_scale for prior in asked] == [2.0, 3.0, 2.0 / 1.5]
    search.improve(15, evidence)
    assert len(asked) == 3
    search.improve(24, evidence)
    assert [prior.prompt_drift_visits for prior in asked[4:6]] == pytest.approx([1536.0, 1024 / 1.5])
    assert [prior.similar_scale for prior in asked[6:]] == pytest.approx([3.0, 2 / 1.5])


def test_it_climbs_and_its_prior_holds_it_near_what_was_given():
    search = ScaleSearch(START, width=1.0)
    assert search.improve(8, more)
    assert search.prior.own_scale == 3.0
    search.improve(800, more)
    assert search.prior.own_scale == pytest.approx(2 * 1.5**3)  # the next one would be above the largest
    assert search.prior.own_scale * 1.5 > LARGEST_SCALE
    tight = ScaleSearch(START, width=0.1)
    tight.improve(800, more)
    assert tight.prior == START
    search = ScaleSearch(START, width=1.0)
    search.improve(800, lambda prior: -prior.own_scale)
    assert 0.7 < search.prior.own_scale < 1.0  # of the values 2 / 1.5^k, 2 / 1.5^2 is the best: x e^x = 2 at 0.85


def test_without_a_width_nothing_is_tried():
    search = ScaleSearch(START, width=0.0)
    assert not search.improve(800, nobody)
    assert search.prior == START


def test_a_part_that_is_not_wanted_stays_away():
    start = replace(START, drift_scale=0.0, own_scale=0.0, prompt_drift_visits=math.inf)
    search = ScaleSearch(start, width=1.0)
    search.improve(800, lambda prior: prior.similar_scale)
    assert search.prior.similar_scale > 2.0
    assert (search.prior.own_scale, search.prior.drift_scale, search.prior.prompt_drift_visits) == (0.0, 0.0, math.inf)


def test_a_search_goes_on_where_it_was_unless_other_values_are_given():
    first = ScaleSearch(START, width=1.0)
    first.improve(40, more)
    state = first.state_dict()
    second = loaded(state)
    assert second.prior == first.prior != START
    assert not second.improve(40, nobody)
    other = replace(START, own_scale=1.0)
    assert loaded(state, other).prior == other
    assert loaded(state, width=0.0).prior == START


def test_trials_that_cannot_help_are_not_made(asked, evidence):
    """Nothing changes between trials of one call: when each scale was tried in vain, the rest is left out for good."""
    search = ScaleSearch(START, width=1.0)
    assert not search.improve(64_000, evidence)
    assert len(asked) == 1 + 2 * 4
    assert not search.improve(64_015, nobody)  # and then it waits for twice as long
    still = ScaleSearch(START, width=0.0)
    still.improve(64_000, nobody)
    assert not loaded(still.state_dict()).improve(64_000, nobody)


def test_trials_become_rare_while_none_helps_and_frequent_after_one_that_does():
    search, asked_at, gain = ScaleSearch(START, width=1.0), [], 0.0

    def evidence(prior):
        asked_at.append(num_visits)
        return gain * prior.own_scale

    for num_visits in range(1, 1000):
        search.improve(num_visits, evidence)
    at = sorted(set(asked_at))
    pauses = [late - early for early, late in pairwise(at)]
    assert pauses[:16] == [8] * 3 + [16] * 4 + [32] * 4 + [64] * 5
    gain = 1.0
    asked_at.clear()
    for num_visits in range(1000, 1300):
        search.improve(num_visits, evidence)
        if search.prior != START:
            break
    helped = num_visits
    search.improve(helped + 7, nobody)
    asked_at.clear()
    num_visits = helped + 8
    search.improve(num_visits, evidence)
    assert asked_at
