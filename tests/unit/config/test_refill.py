"""``refill=...``, ``selection=...`` and ``reward=overlong``: what is refused, and with which way out."""

from __future__ import annotations

import pytest
from hydra.utils import instantiate

from ada_lightning.config.refill import refill_errors
from ada_lightning.config.selection import selection_errors
from ada_lightning.config.setup import Setup
from tests.unit.config.composing import composed


def problems(*overrides: str) -> list[str]:
    cfg = composed(*overrides)
    return [*refill_errors(Setup(cfg)), *selection_errors(Setup(cfg))]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["refill=dynamic", "sampler.budget_per_step=400"], "use refill.max_ratio to limit a step"),
        (["refill=dynamic", "sampler=pruning", "selection=all"], "PruningSampler leaves prompts out"),
        (["+experiment=dapo", "refill.component=corect"], "OverlongReward has the components correct, overlong"),
        (["+experiment=dapo", "refill.component=correct", "reward=weighted", "refill.component=form"],
         "WeightedReward has the components correct, format"),
        (["+experiment=dapo", "rollout.truncated=zero"], "use rollout.truncated=grade or mask"),
        (["reward=overlong", "rollout.truncated=exclude"], "use rollout.truncated=grade or mask"),
        (["refill=dynamic", "refill.keep_surplus=true", "loss.importance_cap=0"], "use loss.importance_cap=2 or"),
        (["+experiment=pruning", "advantage=grpo"], "use advantage=official, with advantage.normalize_std=true"),
        (["+experiment=cppo", "advantage=rloo"], "LargestAdvantageSelection takes advantages over the whole pool"),
        (["+experiment=cppo_batch", "advantage=dr_grpo"], "LargestAdvantageBatchSelection takes advantages"),
        (["+experiment=rollout_bandits", "advantage=grpo"], "BanditSelection takes advantages over the whole pool"),
        (["+experiment=pruning", "selection=pruning_fixed", "advantage=grpo"], "FixedFractionPruning takes"),
        (["selection=largest_advantage"], "LargestAdvantageSelection may drop all positives or all negatives"),
        (["selection=largest_advantage", "advantage=stratified"], "advantage = StratifiedAdvantage follows its"),
        (["+experiment=cppo_batch", "advantage=exact"], "use advantage=official, or selection=balanced"),
        (["selection=pruning_fixed"], "FixedFractionPruning may drop all positives or all negatives"),
        (["+experiment=rollout_bandits", "advantage=exact"], "BanditSelection may drop all positives or all negatives"),
        (["selection=largest_advantage", "advantage=batch_whitened",
          "advantage.advantage._target_=ada_lightning.methods.advantages.ExactAdvantage"],
         "advantage.advantage = ExactAdvantage"),
        (["+experiment=speed_rl", "sampler.group_size=8"], "AllSelection keeps what there is, up to 24 responses"),
        (["+experiment=vip", "sampler.group_size=8"], "sampler.group_size = 8 has no effect"),
        (["+experiment=pilot_commit", "sampler.group_size=8"], "ResolvedSelection keeps what there is, up to 64"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_with_a_way_out(overrides, message):
    (problem,) = problems(*overrides)
    assert message in problem


@pytest.mark.parametrize(
    "overrides",
    [
        ["refill=dynamic", "refill.keep_surplus=true"],
        ["refill=dynamic", "reward=weighted", "refill.component=format"],
        ["refill=dynamic", "reward=function", "refill.component=anything"],
        ["refill=adaptive", "sampler=estimated"],
        ["refill=none", "sampler.budget_per_step=400"],
        ["+experiment=pods", "advantage=official"],
        ["+experiment=pods", "advantage=exact"],
        ["+experiment=speed_rl", "sampler.group_size=8", "selection=balanced"],
        ["+experiment=ada_seq_balance", "selection=all"],
        ["+experiment=pruning", "advantage=exact"],
        ["+experiment=dapo", "rollout.truncated=mask"],
    ],
)
def test_what_does_is_not(overrides):
    assert problems(*overrides) == []


def test_overlong_penalties_are_no_rewards_for_two_classes():
    from ada_lightning.config.check import ConfigError, check_config

    with pytest.raises(ConfigError) as error:
        check_config(composed("+experiment=dapo", "advantage=exact"))
    assert any("takes something off for length" in problem for problem in error.value.problems)


@pytest.mark.parametrize(
    ("overrides", "key", "reference", "part"),
    [
        (["sampler=pruning"], "selection.group_size", "sampler.group_size", "selection"),
        (["selection=largest_advantage_batch"], "selection.normalize_std", "advantage.normalize_std", "selection"),
    ],
)
def test_a_value_taken_from_a_key_that_is_not_there_hides_no_other_problem(overrides, key, reference, part):
    from ada_lightning.config.check import ConfigError, check_config

    with pytest.raises(ConfigError) as error:
        check_config(composed(*overrides, "policy.temperature=2", "num_steps=???"))
    assert [problem for problem in error.value.problems if problem.startswith((key, "num_steps", "policy."))] == [
        "num_steps has no value and needs one; give it on the command line: num_steps=<value>",
        f"{key}: its value is that of a key which the chosen parts do not have (Interpolation key '{reference}' not "
        f"found); give it one of its own, {key}=<value>, or choose another {part}",
        "policy.temperature = 2 is not rollout.sampling.temperature = 1.0; set only the latter",
    ]
    assert not any("Missing mandatory" in problem for problem in error.value.problems)


def test_the_shipped_refills_are_what_they_say():
    assert not instantiate(composed().refill).is_on
    dynamic = instantiate(composed("+experiment=dapo").refill)
    assert (dynamic.first_wave(8), dynamic.component, dynamic.keep_surplus) == (8, "correct", False)
    adaptive = instantiate(composed("+experiment=greso").refill)
    assert (adaptive.first_wave(256), adaptive.slack) == (384, 1.25)
    overlong = instantiate(composed("+experiment=dapo").reward.reward)
    assert overlong.max_tokens == composed().rollout.sampling.max_new_tokens
