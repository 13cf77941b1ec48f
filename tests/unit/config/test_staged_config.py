"""Staged methods as configurations: what experiments are made of, and combinations that cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from ada_lightning.config.check import ConfigError, check_config

CONF = Path(__file__).resolve().parents[3] / "conf"


def composed(experiment, *overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", overrides=[f"+experiment={experiment}", *overrides])


def problems(experiment, *overrides):
    try:
        check_config(composed(experiment, *overrides))
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("experiment", "sampler", "selection", "advantage", "reduction", "curriculum"),
    [
        ("gvm_raft", "GvmSampler", "PositivesSelection", "AcceptedAdvantage", "PromptMeanReduction", "Uniform"),
        ("gvm_grpo", "GvmSampler", "AllSelection", "GroupNormalizedAdvantage", "PromptMeanReduction", "Uniform"),
        ("dars_et", "DarsSampler", "AllSelection", "GroupNormalizedAdvantage", "ConstantReduction", "Uniform"),
        ("dars_hw", "DarsSampler", "AllSelection", "GroupNormalizedAdvantage", "ConstantReduction", "Uniform"),
        ("xrpo", "XrpoSampler", "AllSelection", "NoveltyAdvantage", "ConstantReduction", "Uniform"),
        (
            "pilot_commit",
            "PilotCommitSampler",
            "ResolvedSelection",
            "GroupNormalizedAdvantage",
            "TokenMeanReduction",
            "DifficultyBand",
        ),
        ("speed_rl", "SpeedSampler", "AllSelection", "LeaveOneOutAdvantage", "ConstantReduction", "Uniform"),
        ("mopps", "UniformSampler", "AllSelection", "GroupNormalizedAdvantage", "ConstantReduction", "Posterior"),
        ("lilo", "UniformSampler", "AllSelection", "LeaveOneOutAdvantage", "ConstantReduction", "Posterior"),
    ],
)
def test_experiments_are_made_of_what_their_comments_say(
    experiment, sampler, selection, advantage, reduction, curriculum
):
    cfg = composed(experiment)
    assert type(instantiate(cfg.sampler)).__name__ == sampler
    assert type(instantiate(cfg.selection)).__name__ == selection
    assert type(instantiate(cfg.advantage)).__name__ == advantage
    assert type(instantiate(cfg.loss).reduction).__name__ == reduction
    assert type(instantiate(cfg.curriculum)).__name__.startswith(curriculum)


def test_sizes_are_the_published_ones():
    gvm = instantiate(composed("gvm_raft").sampler)
    assert (gvm.num_pilot, gvm.responses_per_prompt, gvm.alpha, gvm.beta) == (8, 16, 1e-3, 2.0)
    for experiment, totals in (("dars_et", (32, 19, 11, 9)), ("dars_hw", (64, 32, 16, 11))):
        assert instantiate(composed(experiment).sampler).rule.totals[:4] == totals
        assert not composed(experiment).advantage.normalize_std
    assert set(instantiate(composed("pilot_commit").sampler).rule.totals) == {16, 64}
    assert set(instantiate(composed("speed_rl").sampler).rule.totals) == {4, 24}
    mopps = composed("mopps")
    estimator, curriculum = instantiate(mopps.estimator), instantiate(mopps.curriculum)
    assert (estimator.prior.alpha, estimator.prior.beta, estimator.decay) == (1.0, 1.0, 0.5)
    assert (curriculum.candidate_ratio, curriculum.revisit_ratio, curriculum.usefulness.target) == (8, 0, 0.5)


@pytest.mark.parametrize("name", ["constant", "lm_head", "embed_tokens"])
def test_every_gradient_norm_passes_the_check(name):
    assert problems("gvm_grpo", f"sampler/gradient_norm={name}") == ""


@pytest.mark.parametrize("experiment", ["dars_et", "dars_hw", "speed_rl"])
def test_the_exact_estimator_goes_with_rules_that_remember_their_pilot(experiment):
    assert problems(experiment, "advantage=exact") == ""
    assert problems(experiment, "advantage=exact", "selection=balanced") == ""


@pytest.mark.parametrize(
    ("experiment", "overrides", "message"),
    [
        ("gvm_grpo", ["advantage=exact"], "GvmSampler ends a prompt's sampling by more than its counts"),
        ("xrpo", ["advantage=exact"], "XrpoSampler ends a prompt's sampling by more than its counts"),
        ("pilot_commit", ["advantage=exact"], "ResolvedSelection drops prompts by their results"),
        ("gvm_grpo", ["sampler.alpha=0"], "alpha must be positive and finite; got 0"),
        ("gvm_grpo", ["sampler.gradient_norm.chunk_size=0"], "gradient_norm.chunk_size must be at least 1; got 0"),
        ("gvm_grpo", ["+sampler.gradient_norm.chunk=8"], "unknown key sampler.gradient_norm.chunk"),
        ("mopps", ["estimator=value_network"], "keeps nothing by prompt; use estimator=beta_history"),
        ("mopps", ["curriculum.usefulness.target=2"], "target must be in [0, 1]; got 2"),
    ],
)
def test_combinations_that_cannot_work_are_refused(experiment, overrides, message):
    if "estimator=value_network" in overrides:
        overrides = [*overrides, "~estimator.alpha", "~estimator.beta", "~estimator.decay"]
    assert message in problems(experiment, *overrides)
