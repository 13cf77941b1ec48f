from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ada_lightning.analysis.metrics.avg_at_k import AvgAtK
from ada_lightning.analysis.metrics.rollout import RolloutMetrics
from ada_lightning.core.records import ResponseGroup
from ada_lightning.core.result import RolloutResult, RolloutStats
from ada_lightning.methods.selection import BalancedSelection
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


def test_a_group_that_trains_against_its_history_alone_has_no_signal():
    """Else a broken reward, which is 0 for all, would look like a signal of every prompt."""
    group = make_group([0.0, 0.0])
    surprised = ResponseGroup(group.pool, tuple(replace(kept, advantage=-0.2) for kept in group.kept))
    told_apart = ResponseGroup(
        group.pool, tuple(replace(kept, advantage=sign) for kept, sign in zip(group.kept, (-1.0, 1.0), strict=True))
    )
    metrics = RolloutMetrics()
    metrics.update(result([surprised, told_apart], num_drawn=4))
    figures = {name: float(value) for name, value in metrics.compute().items()}
    assert (figures["rollout/signal_ratio"], figures["rollout/num_trained"]) == (0.5, 4)


def test_a_response_without_an_advantage_does_not_count_as_trained():
    group = make_group([1.0, 0.5, 0.0]).with_advantages([0.5, 0.0, -0.5])
    metrics = RolloutMetrics()
    metrics.update(result([group], num_drawn=3))
    figures = metrics.compute()
    assert (float(figures["rollout/num_kept"]), float(figures["rollout/num_trained"])) == (3, 2)


def test_a_group_with_a_signal_that_was_not_needed_counts_as_one():
    """Else the share would fall with the oversampling of a refill, as if prompts had become harder."""
    trained, spare, equal = make_group([1.0, 0.0]), make_pool([1.0, 0.0]), make_pool([0.0, 0.0])
    groups = [trained, ResponseGroup(spare, (), is_surplus=True), ResponseGroup(equal, ())]
    assert [group.can_train for group in groups] == [True, False, False]
    metrics = RolloutMetrics()
    metrics.update(result(groups, num_drawn=6))
    figures = {name: float(value) for name, value in metrics.compute().items()}
    assert figures["rollout/signal_ratio"] == pytest.approx(2 / 3)
    assert (figures["rollout/num_kept"], figures["rollout/num_trained"]) == (2, 2)


def test_a_prompt_without_a_graded_response_is_no_prompt_with_reward_0():
    metrics = RolloutMetrics()
    metrics.update(result([make_group([1.0, 1.0]), make_group([])], num_drawn=4, num_failed=2))
    assert float(metrics.compute()["rollout/reward_prompt"]) == 1.0


def test_any_split_gives_the_figures_of_the_whole():
    groups = [make_group([1.0, 0.0]), make_group([1.0, 1.0, 0.0]), make_group([0.0])]
    whole, parts = RolloutMetrics(), RolloutMetrics()
    whole.update(result(groups, num_drawn=6))
    parts.update(result(groups[:1], num_drawn=2))
    parts.update(result(groups[1:], num_drawn=4))
    assert whole.compute() == parts.compute()


def with_components(*components):
    group = make_group([0.0] * len(components))
    group.pool.responses[:] = [
        replace(response, components=parts) for response, parts in zip(group.pool.responses, components, strict=True)
    ]
    return group


def by_name(metrics):
    return {
        name: float(value) for name, value in metrics.compute().items() if name.split("/")[0] in ("reward", "grader")
    }


NONE = {"grader/cache_hits": 0, "grader/timeout": 0, "grader/crash": 0, "grader/memory": 0}


def test_components_are_means_over_the_responses_that_have_them():
    metrics = RolloutMetrics()
    metrics.update(
        result([with_components({"form": 1.0, "acc@1": 0.5}, {"form": 0.0}), with_components({"form": -4.0})])
    )
    assert by_name(metrics) == NONE | {"reward/form": -1.0, "reward/acc_1": 0.5}


def test_failures_are_counted_by_reason_and_stay_in_sight_at_0():
    metrics = RolloutMetrics()
    metrics.update(result([], num_failed=3, num_cache_hits=5, failures={"timeout": 2, "LookupError": 1}))
    expected = {"grader/cache_hits": 5, "grader/timeout": 2, "grader/LookupError": 1}
    assert by_name(metrics) == NONE | expected
    metrics.reset()
    metrics.update(result([]))
    assert by_name(metrics) == NONE | {"grader/LookupError": 0}
    assert "reward/form" not in metrics.compute()


def test_ranks_with_names_of_their_own_add_up():
    parts = [
        (result([with_components({"a": 1.0, "b": 0.25})], num_drawn=2, failures={"timeout": 1}),),
        (
            result([with_components({"a": 0.0}, {"c": 3.0})], failures={"KeyError": 2}),
            result([], failures={"timeout": 4}),
        ),
    ]
    states, names = [], iter(RolloutMetrics()._reductions)
    first = RolloutMetrics(
        dist_sync_fn=lambda tensor, group: gathered(states, next(names), tensor), distributed_available_fn=all_yes
    )
    whole, ranks = RolloutMetrics(), [first, RolloutMetrics()]
    for rank, results in zip(ranks, parts, strict=True):
        for part in results:
            rank.update(part)
            whole.update(part)
        states.append(
            {name: torch.cat(value) if isinstance(value, list) else value for name, value in rank.metric_state.items()}
        )
    assert by_name(first) == by_name(whole)
    assert by_name(whole)["reward/a"] == 0.5
    assert by_name(whole)["grader/timeout"] == 5


def all_yes():
    return True


def gathered(states, name, tensor):
    """What every rank holds under a name; ``tensor`` is the first rank's."""
    assert torch.equal(states[0][name], tensor)
    return [state[name] for state in states]


def test_avg_at_k_weighs_prompts_equally_and_ignores_ungraded_ones():
    metric = AvgAtK()
    metric.update([make_group([1.0, 0.0, 0.0, 0.0]), make_group([1.0])])
    metric.update([make_group([])])
    assert float(metric.compute()) == pytest.approx((0.25 + 1.0) / 2)
