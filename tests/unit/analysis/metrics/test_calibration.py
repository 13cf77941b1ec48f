from __future__ import annotations

import pytest

from ada_lightning.analysis.metrics.calibration import EstimatorCalibration
from ada_lightning.core.records import Belief
from tests.builders import make_pool, make_response


def pool_of(mean, first_round, later=()):
    pool = make_pool([])
    for index, reward in enumerate([*first_round, *later]):
        pool.add(make_response(index, reward, round_index=int(index >= len(first_round))))
    pool.belief = Belief(10 * mean, 10 * (1 - mean))
    return pool


def figures(*batches):
    metric = EstimatorCalibration()
    for batch in batches:
        metric.update(batch)
    return {name: float(value) for name, value in metric.compute().items()}


POOLS = [pool_of(0.1, [0.0, 0.0]), pool_of(0.5, [1.0, 0.0], later=[1.0, 1.0]), pool_of(0.9, [1.0, 1.0])]


def test_brier_score_of_the_first_round_by_hand():
    """(0.01 * 2 + 0.25 * 2 + 0.01 * 2) / 6; what came later does not count."""
    assert figures(POOLS)["estimator/brier"] == pytest.approx(0.54 / 6)


def test_mean_absolute_error_counts_prompts_and_not_responses():
    """(0.1 + 0 + 0.1) / 3, and with eight times the responses for the first prompt the same."""
    assert figures(POOLS)["estimator/mae"] == pytest.approx(0.2 / 3)
    assert figures([pool_of(0.1, [0.0] * 16), *POOLS[1:]])["estimator/mae"] == pytest.approx(0.2 / 3)


def test_rank_correlation_by_hand():
    assert figures(POOLS)["estimator/rank_correlation"] == pytest.approx(
        1.0, abs=1e-5
    )  # torchmetrics adds 1e-6 to each deviation
    reversed_beliefs = [pool_of(0.9, [0.0, 0.0]), pool_of(0.5, [1.0, 0.0]), pool_of(0.1, [1.0, 1.0])]
    assert figures(reversed_beliefs)["estimator/rank_correlation"] == pytest.approx(-1.0, abs=1e-5)


def test_any_split_gives_the_same():
    assert figures(POOLS[:1], POOLS[1:]) == figures(POOLS)


def test_no_rank_correlation_where_nothing_varies_and_nothing_where_nothing_was_drawn():
    assert set(figures([pool_of(0.5, [1.0]), pool_of(0.5, [0.0])])) == {"estimator/brier", "estimator/mae"}
    assert figures([make_pool([])]) == {"estimator/brier": 0.0}
