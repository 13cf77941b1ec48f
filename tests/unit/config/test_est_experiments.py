"""The Est experiments and their relatives: what they are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from ada_lightning.config.check import check_config, top_level_keys

CONF = Path(__file__).resolve().parents[3] / "conf"


def composed(experiment, *overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", overrides=[f"+experiment={experiment}", *overrides])


@pytest.mark.parametrize(
    ("experiment", "estimator", "gamma", "bounds", "advantage", "reduction"),
    [
        ("ada_est_ema", "EmaEstimator", 0.5, (2, 32), "ExactAdvantage", "ConstantReduction"),
        ("ada_est_value", "ValueNetworkEstimator", 0.5, (2, 32), "ExactAdvantage", "ConstantReduction"),
        ("ada_est_ema_paper", "EmaEstimator", 0.5, (2, 32), "PoolMeanAdvantage", "TokenMeanReduction"),
        ("ada_est_ema_implicit", "EmaEstimator", 1.0, (1, 256), "PoolMeanAdvantage", "TokenMeanReduction"),
    ],
)
def test_est_experiments_are_made_of_what_their_comments_say(
    experiment, estimator, gamma, bounds, advantage, reduction
):
    cfg = composed(experiment)
    sampler, loss = instantiate(cfg.sampler), instantiate(cfg.loss)
    assert type(instantiate(cfg.estimator)).__name__ == estimator
    assert (sampler.responses_per_prompt, sampler.gamma, sampler.n_min, sampler.n_max) == (8, gamma, *bounds)
    assert sampler.group_size == sampler.n_max
    assert type(instantiate(cfg.advantage)).__name__ == advantage
    assert type(loss.reduction).__name__ == reduction
    assert type(instantiate(cfg.selection)).__name__ == "AllSelection"


@pytest.mark.parametrize(
    ("experiment", "sampler", "estimator", "bounds", "advantage", "reduction"),
    [
        ("vip", "VipSampler", "GaussianProcessEstimator", (3, 32), "LeaveOneOutAdvantage", "PromptMeanReduction"),
        (
            "vip_dr_grpo",
            "VipSampler",
            "GaussianProcessEstimator",
            (3, 32),
            "GroupNormalizedAdvantage",
            "PromptMeanReduction",
        ),
        ("knapsack", "KnapsackSampler", "WindowEstimator", (2, 128), "GroupNormalizedAdvantage", "TokenMeanReduction"),
        ("coba_rl", "CobaSampler", "WindowEstimator", (2, 128), "GroupNormalizedAdvantage", "TokenMeanReduction"),
    ],
)
def test_one_pass_allocators_are_made_of_what_their_comments_say(
    experiment, sampler, estimator, bounds, advantage, reduction
):
    cfg = composed(experiment)
    made = instantiate(cfg.sampler)
    assert type(made).__name__ == sampler
    assert (made.responses_per_prompt, made.n_min, made.n_max, made.group_size) == (8, *bounds, bounds[1])
    assert type(instantiate(cfg.estimator)).__name__ == estimator
    assert type(instantiate(cfg.advantage)).__name__ == advantage
    assert type(instantiate(cfg.loss).reduction).__name__ == reduction
    assert type(instantiate(cfg.selection)).__name__ == "AllSelection"


@pytest.mark.parametrize(
    ("experiment", "variance", "normalize_std"),
    [("vip", "RlooVariance", None), ("vip_dr_grpo", "DrGrpoVariance", False), ("knapsack", None, True)],
)
def test_the_variance_is_that_of_the_advantage(experiment, variance, normalize_std):
    cfg = composed(experiment)
    sampler = instantiate(cfg.sampler)
    assert type(getattr(sampler, "variance", None)).__name__ == str(variance).replace("None", "NoneType")
    assert getattr(instantiate(cfg.advantage), "normalize_std", None) is normalize_std


def test_options_that_the_papers_do_not_have_are_off():
    vip, knapsack, coba = (instantiate(composed(name).sampler) for name in ("vip", "knapsack", "coba_rl"))
    assert (vip.hard_bias_gamma, vip.min_keep) == (0.0, 0)
    assert not knapsack.official_dp_quirk
    assert not coba.official_buckets


def test_the_two_ways_to_weight_by_one_over_p_split_it_as_published():
    assert composed("ada_est_ema_paper").advantage.weight_power == 0.5
    assert composed("ada_est_ema_implicit").advantage.weight_power == 0.0


def test_the_implicit_experiment_has_no_limit_that_a_step_could_reach():
    cfg = composed("ada_est_ema_implicit")
    assert cfg.sampler.n_max >= cfg.sampler.responses_per_prompt * cfg.data.prompts_per_step


def test_grpo_n16_is_grpo_with_larger_groups():
    large, small = composed("grpo_n16"), composed("grpo")
    assert (large.sampler.group_size, small.sampler.group_size) == (16, 4)
    for part in ("selection", "advantage", "loss", "estimator"):
        assert large[part] == small[part]


def test_a_missing_history_file_is_a_problem_of_the_configuration(tmp_path):
    cfg = composed("ada_est_ema", f"estimator.history_file={tmp_path}/none.json")
    with pytest.raises(ValueError, match=r"none\.json cannot be read \(No such file or directory\); give the path"):
        check_config(cfg, top_level_keys(CONF, "train"))
