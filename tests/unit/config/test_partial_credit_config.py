"""The shipped configuration where rewards are not binary: what composes, and what does not go together."""

from __future__ import annotations

import pytest
from hydra.utils import instantiate

from ada_lightning.config.check import check_config
from ada_lightning.core.records import Completion
from ada_lightning.methods.selection import QuantileSelection, RewardStrataSelection
from tests.unit.config.composing import composed, problems

SPREAD = "+experiment=ada_spread_partial_credit"
PARTIAL = "reward.reward.binary=false"


@pytest.mark.parametrize(
    "overrides",
    [
        [SPREAD],
        [SPREAD, "selection=quantile"],
        [SPREAD, "selection=all", "~selection.random_order"],
        [SPREAD, "advantage.baseline._target_=ada_lightning.methods.pass_rates.FirstRoundRate"],
        [SPREAD, "advantage=rloo"],
        ["selection=balanced_random"],
        ["selection=rarer_class"],
        ["data/source/tasks=spell_backward"],
        ["advantage=weighted_leave_one_out", "selection=stratified"],
    ],
)
def test_what_goes_together_passes(overrides):
    check_config(composed(*overrides))


def test_the_experiment_is_what_it_says():
    cfg = composed(SPREAD)
    assert list(cfg.data.source.tasks) == ["spell_backward"]
    assert cfg.reward.reward.binary is False
    assert isinstance(instantiate(cfg.selection), RewardStrataSelection)
    assert isinstance(instantiate(composed(SPREAD, "selection=quantile").selection), QuantileSelection)


def test_the_experiment_gives_a_reward_between_0_and_1():
    cfg = composed(SPREAD, "data.source.num_train=20", "data.source.num_heldout=0")
    reward = instantiate(cfg.reward.reward)
    for prompt in instantiate(cfg.data.source).train_prompts():
        answer = prompt.reference["answer"]
        assert reward(prompt, Completion(f"{answer}\n")).reward == pytest.approx(1.0)
        assert reward(prompt, Completion("")).reward == 0.0
        assert reward(prompt, Completion(answer[0] + "#" * (len(answer) - 1))).reward == pytest.approx(1 / len(answer))


@pytest.mark.parametrize("selection", ["stratified", "quantile"])
@pytest.mark.parametrize("advantage", ["exact", "stratified"])
def test_estimators_of_two_classes_refuse_strata_of_rewards(selection, advantage):
    overrides = [f"selection={selection}", f"advantage={advantage}", "sampler.group_size=8"]
    (problem,) = problems(*overrides)
    assert problem.startswith("selection: ")
    assert problem.endswith("use advantage=weighted_leave_one_out or selection=balanced")


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["advantage=exact"], "advantage = ExactAdvantage"),
        (["advantage=stratified"], "advantage = StratifiedAdvantage"),
        (
            ["advantage=official", "advantage.pass_rate._target_=ada_lightning.methods.pass_rates.PathCountingRate"],
            "advantage.pass_rate = PathCountingRate",
        ),
    ],
)
def test_estimators_of_two_classes_refuse_partial_credit(overrides, named):
    (problem,) = problems(PARTIAL, *overrides)
    assert problem.startswith(
        f"reward.reward.binary = false gives partial credit, and {named} is for rewards of 0 and 1"
    )


def test_rewards_that_say_nothing_of_credit_are_left_alone():
    check_config(composed("reward=exact_match"))


def test_a_target_that_cannot_be_loaded_is_reported_once():
    (problem,) = problems("advantage._target_=ada_lightning.methods.advantages.Exactly")
    assert problem.startswith("advantage._target_ = ada_lightning.methods.advantages.Exactly cannot be loaded")
