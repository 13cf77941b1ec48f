from __future__ import annotations

import pytest

from ada_lightning.metrics.avg_at_k import AvgAtK
from ada_lightning.metrics.rollout import RolloutMetrics
from ada_lightning.rollout.result import RolloutResult, RolloutStats
from ada_lightning.selection import BalancedSelection
from ada_lightning.types import ResponseGroup
from tests.builders import make_group, make_pool, make_response


def result(groups, **stats):
    return RolloutResult(step=0, policy_version=0, groups=tuple(groups), stats=RolloutStats(**stats))


def test_figures_by_hand():
    pool = make_pool([0.0, 0.0])  # first round without a positive, second round brings one
    pool.add(make_response(2, 1.0, round_index=1))
    pool.add(make_response(3, 0.0, round_index=1))
    groups = [
        ResponseGroup(pool, BalancedSelection(group_size=2).select(pool)),
        make_group([1.0, 1.0]),
        make_group([0.0, 0.0]),
    ]
    metrics = RolloutMetrics()
    metrics.update(result(groups, num_drawn=8, generated_tokens=20, num_truncated=2))
    figures = {name: float(value) for name, value in metrics.compute().items()}
    assert figures["rollout/reward_first_round"] == pytest.approx(2 / 6)
    assert figures["rollout/reward_pool"] == pytest.approx(3 / 8)
    assert figures["rollout/signal_ratio"] == pytest.approx(1 / 3)
    assert figures["rollout/signal_ratio_first_round"] == 0
    assert figures["rollout/all_correct_ratio"] == pytest.approx(1 / 3)
    assert figures["rollout/all_wrong_ratio"] == pytest.approx(1 / 3)
    assert figures["rollout/num_sampled"] == 8
    assert (figures["rollout/num_kept"], figures["rollout/num_trained"]) == (6, 2)
    assert figures["rollout/rounds_per_prompt"] == pytest.approx(4 / 3)
    assert figures["rollout/response_tokens"] == 2.5
    assert figures["rollout/truncated_ratio"] == 0.25


def test_any_split_gives_the_figures_of_the_whole():
    groups = [make_group([1.0, 0.0]), make_group([1.0, 1.0, 0.0]), make_group([0.0])]
    whole, parts = RolloutMetrics(), RolloutMetrics()
    whole.update(result(groups, num_drawn=6))
    parts.update(result(groups[:1], num_drawn=2))
    parts.update(result(groups[1:], num_drawn=4))
    assert whole.compute() == parts.compute()


def test_avg_at_k_weighs_prompts_equally_and_ignores_ungraded_ones():
    metric = AvgAtK()
    metric.update([make_group([1.0, 0.0, 0.0, 0.0]), make_group([1.0])])
    metric.update([make_group([])])
    assert float(metric.compute()) == pytest.approx((0.25 + 1.0) / 2)
