from __future__ import annotations

import math

import pytest

from ada_lightning.run.stopping import RunStoppedError
from ada_lightning.training.updates import UpdateGuard


def test_what_is_finite_passes_by_default_however_large():
    guard = UpdateGuard()
    assert [guard.reason_to_skip(1.0, norm) for norm in [1.0] * 20 + [1e30]] == [""] * 21


@pytest.mark.parametrize(("loss", "norm", "reason"), [(1.0, math.nan, "norm is nan"), (math.inf, 1.0, "loss is inf")])
def test_what_is_not_finite_is_left_out(loss, norm, reason):
    assert reason in UpdateGuard().reason_to_skip(loss, norm)


def test_an_exploding_norm_is_compared_with_the_median_of_those_that_passed():
    guard = UpdateGuard(max_norm_ratio=10.0, window=8)
    assert guard.reason_to_skip(0.0, 500.0) == ""  # nothing to compare with yet
    for _ in range(8):
        assert guard.reason_to_skip(0.0, 2.0) == ""
    assert guard.reason_to_skip(0.0, 19.0) == ""
    reason = guard.reason_to_skip(0.0, 21.0)
    assert "gradient norm 21 is 10.5 times the median 2 of the last 8" in reason
    assert guard.reason_to_skip(0.0, 21.0)  # the one left out did not move the median


def test_after_a_stretch_without_gradients_the_next_one_is_not_an_explosion():
    guard = UpdateGuard(max_norm_ratio=10.0, window=8)
    assert [guard.reason_to_skip(0.0, norm) for norm in (*[0.0] * 8, 0.5)] == [""] * 9


def test_too_many_in_a_row_stop_the_run_and_one_that_passes_starts_the_count_anew():
    guard = UpdateGuard(max_skipped_in_a_row=3)
    for loss in (math.nan, math.nan, 1.0, math.nan, math.nan):
        guard.reason_to_skip(loss, 1.0)
    with pytest.raises(RunStoppedError, match=r"3 updates in a row .* norm is inf.*max_skipped_in_a_row = 3"):
        guard.reason_to_skip(1.0, math.inf)


def test_a_resumed_guard_decides_alike():
    guard, resumed = (UpdateGuard(max_norm_ratio=3.0, max_skipped_in_a_row=2) for _ in range(2))
    for norm in (1.0, 1.1, 0.9, 1.0, 1.0, 1.0, 1.2, 1.0, 9.0):
        guard.reason_to_skip(0.0, norm)
    resumed.load_state_dict(guard.state_dict())
    assert resumed.state_dict() == guard.state_dict()
    with pytest.raises(RunStoppedError):
        resumed.reason_to_skip(0.0, 9.0)


def test_numbers_out_of_range_are_refused_together():
    with pytest.raises(ValueError, match=r"max_skipped_in_a_row.*got 0; max_norm_ratio.*got 1; window.*got 2"):
        UpdateGuard(max_skipped_in_a_row=0, max_norm_ratio=1, window=2)
