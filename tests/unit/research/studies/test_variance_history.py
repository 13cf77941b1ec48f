from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.core.records import Belief, Prompt, ResponseGroup, ResponsePool
from ada_lightning.methods.advantages import HistoryBaselineAdvantage
from ada_lightning.methods.selection import AllSelection
from research.benchmarks.expected_update import scripted_response
from research.benchmarks.simulation.pass_rates import MIXES
from research.studies.variance.history import (
    PLANS,
    beliefs,
    best_share,
    divided,
    everyone,
    planned_moments,
    rarer_class,
    shrunk_leave_one_out,
    visit_chance,
)
from research.studies.variance.rules import rounded_leave_one_out
from research.studies.variance.update_moments import update_moments

RATES = np.array([0.03, 0.3, 0.5, 0.9])
UNIT = RATES * (1.0 - RATES)
MIX = MIXES["wide"]


@pytest.mark.parametrize("size", [1, 4])
def test_a_baseline_of_the_others_and_the_visit_keeps_the_gradient(size):
    moments = update_moments(shrunk_leave_one_out(Belief(2.0, 7.0), size), RATES)
    assert moments.signal_P == pytest.approx(UNIT)


def test_the_baseline_is_that_of_the_project():
    belief, labels = Belief(2.0, 7.0), (True, False, False, True, False)
    pool = ResponsePool(Prompt("p", ()), 0, belief=belief)
    for index, label in enumerate(labels):
        pool.add(scripted_response(index, is_positive=label, round_index=0))
    (advantages,) = HistoryBaselineAdvantage().assign([ResponseGroup(pool, AllSelection().select(pool))])
    ends = shrunk_leave_one_out(belief, 5)
    place = int(np.flatnonzero(ends.positives_E == 2)[0])
    of_positives = sum(value for value, label in zip(advantages, labels, strict=True) if label)
    assert ends.positive_sums_E[place] == pytest.approx(of_positives / 5)
    assert ends.negative_sums_E[place] == pytest.approx((sum(advantages) - of_positives) / 5)


def test_a_single_response_with_a_wrong_baseline_pays_the_square_of_its_error():
    belief = Belief(2.0, 6.0)
    moments = update_moments(shrunk_leave_one_out(belief, 1), RATES)
    assert moments.noise == pytest.approx(UNIT + (RATES - 0.25) ** 2)


def test_a_rounded_baseline_keeps_the_gradient_and_trains_the_rarer_class():
    """Of 3, a negative trains unless both others are negative too, a positive unless both are positive."""
    moments = update_moments(rounded_leave_one_out(3), RATES)
    assert moments.signal_P == pytest.approx(UNIT)
    assert moments.negative_kept_P == pytest.approx(3 * (1 - RATES) * (1 - (1 - RATES) ** 2))
    assert moments.positive_kept_P == pytest.approx(3 * RATES * (1 - RATES**2))
    assert update_moments(rounded_leave_one_out(8), RATES).signal_P == pytest.approx(UNIT)


def test_the_class_expected_to_be_rarer_trains_alone():
    assert update_moments(rarer_class(Belief(1.0, 9.0)), RATES).negative_kept_P == pytest.approx(0)
    assert update_moments(rarer_class(Belief(9.0, 1.0)), RATES).positive_kept_P == pytest.approx(0)


def test_a_share_is_that_share_of_the_mix_and_the_whole_is_everyone():
    grid = MIX.grid()
    quarter = planned_moments(best_share(MIX, 0.25, 4), grid)
    assert MIX.expect(quarter.drawn) == pytest.approx(1.0)
    whole = planned_moments(best_share(MIX, 1.0, 4), grid)
    plain = planned_moments(everyone(MIX, lambda belief: shrunk_leave_one_out(belief, 4)), grid)
    assert whole.noise == pytest.approx(plain.noise)


def test_a_visit_to_the_arcsine_mix_has_its_known_outcomes():
    """Beta-binomial(8, 1/2, 1/2): C(2k, k) C(16 - 2k, 8 - k) / 4^8."""
    from math import comb

    expected = [comb(2 * k, k) * comb(16 - 2 * k, 8 - k) / 4**8 for k in range(9)]
    # 400 quantiles stand for the distribution.
    assert visit_chance(MIX) == pytest.approx(np.array(expected), rel=0.01)
    assert beliefs(MIX)[3].alpha - beliefs(MIX)[2].alpha == pytest.approx(1)


@pytest.mark.parametrize("name", ["VIP, RLOO", "Ada-Est"])
def test_a_divided_step_spends_what_it_has(name):
    moments = planned_moments(divided(MIX, name), MIX.grid())
    assert MIX.expect(moments.drawn) == pytest.approx(8, rel=0.01)
    assert moments.signal_P[2:] == pytest.approx((MIX.grid() * (1 - MIX.grid()))[2:], rel=1e-5)


def test_every_plan_is_a_distribution():
    for make in PLANS.values():
        for parts in make(MIX).values():
            assert 0 <= sum(part.share for part in parts) <= 1 + 1e-12
