import math

import pytest

from ada_lightning.estimators.logit_prior import LogitPrior
from ada_lightning.estimators.scale_search import LARGEST_SCALE, ScaleSearch

START = LogitPrior(2.0, 1.0, 256.0, 2.0, 2.0, 1024.0)


def flat(prior):
    return 0.0


def test_it_tries_one_scale_per_eight_visits():
    asked = []

    def evidence(prior):
        asked.append(prior)
        return 0.0

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
    def wants_more(prior):
        return prior.own_scale

    search = ScaleSearch(START, width=1.0)
    assert search.improve(8, wants_more)
    assert search.prior.own_scale == 3.0
    search.improve(800, wants_more)
    assert search.prior.own_scale == pytest.approx(2 * 1.5**3)  # the next one would be above the largest
    assert search.prior.own_scale * 1.5 > LARGEST_SCALE
    tight = ScaleSearch(START, width=0.1)
    tight.improve(800, wants_more)
    assert tight.prior == START
    search = ScaleSearch(START, width=1.0)
    search.improve(800, lambda prior: -prior.own_scale)
    assert 0.4 < search.prior.own_scale < 1.0  # the best of log x + (log x / 2) ^ 2 / 2 lies between


def test_without_a_width_nothing_is_tried():
    search = ScaleSearch(START, width=0.0)
    assert not search.improve(800, lambda prior: pytest.fail("asked"))
    assert search.prior == START


def test_a_part_that_is_not_wanted_stays_away():
    start = LogitPrior(2.0, 0.0, 256.0, 2.0, 0.0, math.inf)
    search = ScaleSearch(start, width=1.0)
    search.improve(800, lambda prior: prior.similar_scale)
    assert search.prior.similar_scale > 2.0
    assert (search.prior.own_scale, search.prior.drift_scale, search.prior.prompt_drift_visits) == (0.0, 0.0, math.inf)


def test_a_search_goes_on_where_it_was_unless_other_values_are_given():
    first = ScaleSearch(START, width=1.0)
    first.improve(40, lambda prior: prior.own_scale)
    second = ScaleSearch(START, width=1.0)
    second.load_state_dict(first.state_dict())
    assert second.prior == first.prior != START
    assert not second.improve(40, lambda prior: pytest.fail("asked"))
    other = ScaleSearch(LogitPrior(2.0, 1.0, 256.0, 2.0, 1.0, 1024.0), width=1.0)
    other.load_state_dict(first.state_dict())
    assert other.prior.own_scale == 1.0
