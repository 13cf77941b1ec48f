from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.config.estimator import estimator_errors
from ada_lightning.config.setup import Setup
from tests.unit.config.composing import composed

SPREAD = "SpreadSampler ends a prompt's sampling by more than its counts"


def errors(*overrides: str) -> list[str]:
    return list(estimator_errors(Setup(composed(*overrides))))


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("sampler=balance_posterior",),
        ("sampler=uniform", "selection=all"),
        ("sampler=estimated", "selection=all"),
        ("sampler=vip", "selection=all", "estimator=gaussian_process"),
        ("sampler=vip", "selection=all", "estimator=ema"),
        ("sampler=knapsack", "selection=all", "estimator=window"),
        ("sampler=knapsack", "selection=all", "estimator=ema"),
        ("sampler=knapsack", "selection=all", "estimator=gaussian_process", "sampler.min_seen=0"),
        ("sampler=coba", "selection=all", "estimator=window", "estimator.window=1"),
        ("sampler=spread", "advantage=weighted_leave_one_out"),
        ("sampler=spread", "advantage=stratified"),
        ("objective=pass_at_k", "objective.k=31"),
        ("sampler.budget_per_step=128",),  # 32 prompts x blocks of 4
        ("sampler.budget_per_step=0",),
        ("sampler.group_size=2",),
        ("sampler.group_size=1", "advantage=official"),
    ],
)
def test_updates_that_exist_pass(overrides):
    assert errors(*overrides) == []


def test_exact_estimator_needs_a_stopping_rule_of_counts():
    assert errors("sampler=spread") == [
        f"advantage: {SPREAD}, so paths cannot be counted; use advantage=stratified or "
        "advantage=weighted_leave_one_out with this sampler"
    ]


@pytest.mark.parametrize(
    ("advantage", "name", "other"),
    [
        ("stratified", "pass_rate", "PoolMeanRate"),
        ("weighted_leave_one_out", "baseline", "LeaveOneOutRate"),
    ],
)
def test_path_counting_rate_needs_one_too(advantage, name, other):
    path_counting = f"advantage.{name}._target_=ada_lightning.methods.pass_rates.PathCountingRate"
    assert errors("sampler=spread", f"advantage={advantage}", path_counting) == [
        f"advantage.{name}: {SPREAD}, so paths cannot be counted; use ada_lightning.methods.pass_rates.{other} with "
        "this sampler"
    ]


def test_objective_beyond_the_budget_names_what_it_needs():
    (error,) = errors("objective=pass_at_k", "objective.k=64")
    assert error == (
        "objective: the stopping rule (at most 32 responses per prompt) cannot support the objective 1 - (1-p)^64: its "
        "first term needs 65 responses; raise sampler.n_max or choose another objective"
    )


@pytest.mark.parametrize("advantage", ["exact", "stratified"])
def test_one_kept_response_cannot_weigh_one_class_against_the_other(advantage):
    assert errors("sampler.group_size=1", f"advantage={advantage}") == [
        "selection.group_size = 1 keeps one class only, and the chosen advantage needs a response of each; use "
        "sampler.group_size=2 or more"
    ]


def test_budget_below_the_first_blocks_of_a_step_is_refused():
    assert errors("sampler.budget_per_step=127") == [
        "sampler.budget_per_step = 127 is less than data.prompts_per_step * sampler.samples_per_round = 32 * 4: some "
        "prompts would never be drawn; use sampler.budget_per_step=128 or more, or 0 for no limit"
    ]


@pytest.mark.parametrize(("sampler", "min_seen"), [("knapsack", 8), ("coba", 1)])
def test_plan_by_what_was_seen_needs_an_estimator_that_counts(sampler, min_seen):
    assert errors(f"sampler={sampler}", "selection=all", "estimator=gaussian_process") == [
        f"sampler.min_seen = {min_seen} asks for responses seen of each prompt, and GaussianProcessEstimator counts "
        "none: every plan would be uniform; use sampler.min_seen=0 to trust its predictions, or estimator=window"
    ]


def test_window_must_hold_what_makes_a_prompt_known():
    assert errors("sampler=knapsack", "selection=all", "estimator=window", "estimator.window=7") == [
        "sampler.min_seen = 8 exceeds estimator.window = 7: a prompt with fewer responses than that at its last visit "
        "would be unknown again; use estimator.window=8 or more"
    ]


def test_part_that_cannot_be_made_is_reported_once_by_itself():
    cfg = composed("sampler.k_pos=0")
    assert list(estimator_errors(Setup(cfg))) == []
    with pytest.raises(ConfigError) as error:
        check_config(cfg)
    assert len(error.value.problems) == 1


def test_check_of_the_configuration_asks():
    with pytest.raises(ConfigError) as error:
        check_config(composed("objective=pass_at_k", "objective.k=64", "sampler.budget_per_step=1"))
    assert [problem.partition(" ")[0] for problem in error.value.problems] == ["sampler.budget_per_step", "objective:"]


def test_absent_parts_are_left_alone():
    assert (
        list(estimator_errors(Setup(OmegaConf.create({"sampler": None, "data": {"prompts_per_step": "${missing}"}}))))
        == []
    )
