from __future__ import annotations

from dataclasses import replace

import pytest

from ada_lightning.analysis.metrics.rollout import RolloutMetrics
from ada_lightning.core.records import ResponseGroup
from ada_lightning.core.step_records import RolloutResult, RolloutStats
from ada_lightning.methods.selection import BalancedSelection
from tests.builders import make_group, make_pool, make_response


def figures_of(*groups, metrics=None, **stats):
    result = RolloutResult(step=0, policy_version=0, groups=groups, stats=RolloutStats(**stats))
    found = (metrics or RolloutMetrics())(result)
    return {name.removeprefix("rollout/"): value for name, value in found.items()}


def told_apart(group, *advantages):
    return ResponseGroup(
        group.pool,
        tuple(replace(kept, advantage=value) for kept, value in zip(group.kept, advantages, strict=True)),
    )


def test_figures_by_hand():
    pool = make_pool([0.0, 0.0])  # first round without a positive, second round brings one
    pool.add(make_response(2, 1.0, round_index=1))
    pool.add(make_response(3, 0.0, round_index=1))
    balanced = ResponseGroup(pool, BalancedSelection(group_size=2).select(pool))
    others = make_group([1.0, 1.0]), make_group([0.0, 0.0])
    figures = figures_of(balanced, *others, num_drawn=8, generated_tokens=20, num_truncated=2)
    assert {name: figures[name] for name in ("num_sampled", "num_kept", "num_trained")} == {
        "num_sampled": 8, "num_kept": 6, "num_trained": 2
    }  # fmt: skip
    expected = {
        "reward_first_round": 2 / 6, "reward_pool": 3 / 8, "reward_prompt": (1 / 4 + 1) / 3, "signal_ratio": 1 / 3,
        "signal_ratio_first_round": 0, "all_correct_ratio": 1 / 3, "all_wrong_ratio": 1 / 3, "rounds_per_prompt": 4 / 3,
        "response_tokens": 2.5, "truncated_ratio": 0.25, "tokens_kept": 12, "unresolved_ratio": 0,
    }  # fmt: skip
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("groups", "signal_ratio", "num_trained"),
    [
        # Against its history alone: else a broken reward, which is 0 for all, would look like a signal of every prompt.
        ([told_apart(make_group([0.0, 0.0]), -0.2, -0.2), told_apart(make_group([0.0, 0.0]), -1.0, 1.0)], 1 / 2, 4),
        # A response without an advantage does not train.
        ([make_group([1.0, 0.5, 0.0]).with_advantages([0.5, 0.0, -0.5])], 1, 2),
        # A signal that was not needed counts: else the share would fall with the oversampling of a refill.
        (
            [
                make_group([1.0, 0.0]),
                ResponseGroup(make_pool([1.0, 0.0]), (), is_surplus=True),
                ResponseGroup(make_pool([0.0, 0.0]), ()),
            ],
            2 / 3,
            2,
        ),
    ],
)
def test_what_counts_as_a_signal_and_what_trains(groups, signal_ratio, num_trained):
    figures = figures_of(*groups, num_drawn=6)
    assert (figures["signal_ratio"], figures["num_trained"]) == (pytest.approx(signal_ratio), num_trained)


def test_a_prompt_without_a_graded_response_is_no_prompt_with_reward_0():
    assert figures_of(make_group([1.0, 1.0]), make_group([]), num_drawn=4, num_failed=2)["reward_prompt"] == 1.0


def with_components(*components):
    group = make_group([0.0] * len(components))
    group.pool.responses[:] = [
        replace(response, components=parts) for response, parts in zip(group.pool.responses, components, strict=True)
    ]
    return group


def by_name(figures):
    return {name: value for name, value in figures.items() if name.split("/")[0] in ("reward", "grader")}


NONE = {"grader/cache_hits": 0, "grader/timeout": 0, "grader/crash": 0, "grader/memory": 0}


def test_components_are_means_over_the_responses_that_have_them():
    groups = with_components({"form": 1.0, "acc@1": 0.5}, {"form": 0.0}), with_components({"form": -4.0})
    assert by_name(figures_of(*groups)) == NONE | {"reward/form": -1.0, "reward/acc_1": 0.5}


def test_failures_are_counted_by_reason_and_stay_in_sight_at_0():
    metrics = RolloutMetrics()
    failures = {"timeout": 2, "LookupError": 1}
    first = figures_of(metrics=metrics, num_failed=3, num_cache_hits=5, failures=failures)
    assert first["grader_failures"] == 3
    assert by_name(first) == NONE | {"grader/cache_hits": 5, "grader/timeout": 2, "grader/LookupError": 1}
    assert by_name(figures_of(metrics=metrics)) == NONE | {"grader/LookupError": 0}
