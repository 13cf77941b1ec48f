import math

import numpy as np
import pytest

from ada_lightning.analysis.report.curves import Axis, Curve, band, curve, thinned
from tests.unit.analysis.report.small_folder import make_run

HELDOUT = "eval/avg_at_4"


def line(x, y):
    return Curve(np.array(x, dtype=float), np.array(y, dtype=float))


def test_an_evaluation_stands_at_what_was_spent_before_it(tmp_path):
    run = make_run(tmp_path / "run", heldout={0: 0.1, 2: 0.2, 4: 0.4}, tokens=100, seconds=10.0)
    assert curve(run, HELDOUT, Axis.STEPS).x.tolist() == [0, 2, 4]
    assert curve(run, HELDOUT, Axis.TOKENS).x.tolist() == [0, 200, 400]
    assert curve(run, HELDOUT, Axis.SECONDS).x.tolist() == [0, 20, 40]  # evaluation's own 1000 s are not training


@pytest.mark.parametrize(
    ("metrics", "axis", "expected"),
    [
        ([{"rollout/tokens_wasted": 7}], Axis.TOKENS, 207),  # tokens that were dropped are paid for
        ([{}, {"rollout/generated_tokens": ""}], Axis.STEPS, 1),  # several updates of a rollout are one step
        ([{"time/rollout_s": math.nan}], Axis.SECONDS, 10),
    ],
)
def test_what_a_policy_has_cost(tmp_path, metrics, axis, expected):
    run = make_run(tmp_path / "run", heldout={0: math.nan, 2: 0.2, 4: math.inf}, metrics=metrics)
    found = curve(run, HELDOUT, axis)
    assert (found.x.tolist(), found.y.tolist()) == ([expected], [0.2])  # values that are no numbers are left out


def test_nothing_is_extrapolated():
    values = line([10, 20], [1, 3]).at(np.array([5.0, 10, 15, 20, 25]))
    assert np.isnan(values).tolist() == [True, False, False, False, True]
    assert values[1:4].tolist() == [1, 2, 3]


def test_mean_and_range_end_where_the_first_seed_ends():
    middle = band([line([0, 10, 20], [0, 1, 2]), line([0, 5, 30], [0, 2, 2])])
    assert middle is not None
    assert middle.x.tolist() == [0, 5, 10, 20]
    assert middle.mean.tolist() == pytest.approx([0, 1.25, 1.5, 2])
    assert middle.low.tolist() == pytest.approx([0, 0.5, 1, 2])
    assert middle.high.tolist() == pytest.approx([0, 2, 2, 2])


def test_curves_without_a_common_stretch_have_no_mean():
    assert band([line([0, 1], [0, 1]), line([2, 3], [0, 1])]) is None
    assert band([line([0, 1], [0, 1]), line([], [])]) is None
    assert band([]) is None


def test_a_level_is_reached_between_two_points():
    rising = line([0, 10, 20], [0.1, 0.3, 0.2])
    assert rising.reaches(0.2) == pytest.approx(5)
    assert rising.reaches(0.1) == 0
    assert rising.reaches(0.31) is None


def test_a_long_curve_is_averaged_and_keeps_its_mean():
    shorter, size = thinned(line(range(10), range(10)), max_points=4)
    assert size == 3
    assert shorter.y.tolist() == [1, 4, 7, 9]
    assert thinned(line(range(4), range(4)), max_points=4)[1] == 1
