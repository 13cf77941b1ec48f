from __future__ import annotations

import pytest

from ada_lightning.analysis.metrics.rollout import EstimatorCalibration
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
    return {name.removeprefix("estimator/"): float(value) for name, value in metric.compute().items()}


POOLS = [pool_of(0.1, [0.0, 0.0]), pool_of(0.5, [1.0, 0.0], later=[1.0, 1.0]), pool_of(0.9, [1.0, 1.0])]
RANK = {"abs": 1e-5}  # torchmetrics adds 1e-6 to each deviation


def test_figures_of_the_first_round_by_hand_whatever_the_split():
    """Responses: (0.01 * 2 + 0.25 * 2 + 0.01 * 2) / 6, what came later does not count; prompts: (0.1 + 0 + 0.1) / 3."""
    found = figures(POOLS)
    assert found["brier"] == pytest.approx(0.54 / 6)
    assert found["mae"] == pytest.approx(0.2 / 3)
    assert found["rank_correlation"] == pytest.approx(1.0, **RANK)
    assert figures(POOLS[:1], POOLS[1:]) == found


def test_the_mean_absolute_error_counts_prompts_and_not_responses():
    assert figures([pool_of(0.1, [0.0] * 16), *POOLS[1:]])["mae"] == pytest.approx(0.2 / 3)


def test_beliefs_the_wrong_way_round_have_a_negative_rank_correlation():
    wrong = [pool_of(0.9, [0.0, 0.0]), pool_of(0.5, [1.0, 0.0]), pool_of(0.1, [1.0, 1.0])]
    assert figures(wrong)["rank_correlation"] == pytest.approx(-1.0, **RANK)


def test_no_rank_correlation_where_nothing_varies_and_nothing_where_nothing_was_drawn():
    assert set(figures([pool_of(0.5, [1.0]), pool_of(0.5, [0.0])])) == {"brier", "mae"}
    assert figures([make_pool([])]) == {"brier": 0.0}
