"""``curriculum=...`` on the command line: what composes, what is refused, and with which way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ada_lightning.config.check import check_config, override_errors
from ada_lightning.config.estimator import curriculum_errors
from ada_lightning.config.setup import Setup
from ada_lightning.core.stopping import FixedRule, QuotaRule
from ada_lightning.methods.objectives import LinearObjective, PassAtKObjective
from tests.unit.config.composing import composed, problems

CONF = Path(__file__).resolve().parents[3] / "conf"


@pytest.mark.parametrize("estimator", ["beta_history", "ema"])
@pytest.mark.parametrize("curriculum", ["uniform", "difficulty_band", "posterior"])
@pytest.mark.parametrize("sampler", ["balance", "balance_posterior", "positive", "uniform", "estimated"])
def test_curricula_compose_with_samplers_and_estimators_that_remember(curriculum, estimator, sampler):
    overrides = [f"curriculum={curriculum}", f"estimator={estimator}", f"sampler={sampler}"]
    assert override_errors(overrides, CONF, "train") == []
    cfg = composed(*overrides)
    assert list(curriculum_errors(Setup(cfg))) == []
    assert instantiate(cfg.curriculum).needs_history == (curriculum != "uniform")


def test_the_usefulness_is_that_of_the_runs_own_sampler_and_objective():
    usefulness = instantiate(
        composed("curriculum=posterior", "sampler.n_max=16", "objective=pass_at_k", "objective.k=3").curriculum
    ).usefulness
    assert usefulness.rule == QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=16)
    assert usefulness.objective == PassAtKObjective(3)


def test_without_an_objective_it_is_that_of_the_mean_reward():
    usefulness = instantiate(
        composed("curriculum=posterior", "advantage=official", "sampler=uniform", "sampler.group_size=6").curriculum
    ).usefulness
    assert usefulness.objective == LinearObjective()
    assert usefulness.rule == FixedRule(6)


def test_a_plain_learnability_has_no_further_settings():
    cfg = composed("curriculum=posterior", "curriculum/usefulness=learnability")
    check_config(cfg)
    assert type(instantiate(cfg.curriculum).usefulness).__name__ == "Learnability"


@pytest.mark.parametrize(
    ("curriculum", "name"), [("difficulty_band", "DifficultyBand"), ("posterior", "PosteriorSampling")]
)
def test_an_estimator_that_keeps_nothing_by_prompt_is_refused(curriculum, name):
    assert problems(f"curriculum={curriculum}", "estimator=value_network") == [
        f"curriculum: {name} chooses by what is remembered of each prompt, and ValueNetworkEstimator keeps nothing by "
        "prompt; use estimator=beta_history or estimator=ema with it, or curriculum=uniform"
    ]
    check_config(composed("estimator=value_network"))


def test_bounds_out_of_order_are_a_problem_of_the_configuration():
    assert problems("curriculum=difficulty_band", "curriculum.low=0.8", "curriculum.high=0.2") == [
        "curriculum: curriculum.low and curriculum.high must be 0 <= low < high <= 1; got 0.8 and 0.2"
    ]


def test_a_sampler_without_a_rule_of_counts_has_no_cost_to_compute():
    overrides = ["curriculum=posterior", "sampler=spread", "advantage=weighted_leave_one_out"]
    (problem,) = problems(*overrides)
    assert problem.startswith("curriculum")
    assert ": SignalPerResponse counts responses until a prompt's counts end" in problem
    assert problem.endswith("use curriculum=learnability")
    check_config(composed(*overrides[1:], "curriculum=learnability"))


@pytest.mark.parametrize("experiment", ["ada", "lilo", "mopps"])
def test_the_curriculum_of_an_experiment_can_be_changed_for_one_without_usefulness(experiment):
    cfg = composed(f"+experiment={experiment}", "curriculum=uniform")
    assert "usefulness" not in cfg.curriculum
    check_config(cfg)


def test_learnability_is_posterior_sampling_with_that_usefulness():
    parts = composed("curriculum=posterior", "curriculum/usefulness=learnability").curriculum
    assert composed("curriculum=learnability").curriculum == parts


def test_a_wrong_sampler_is_reported_once_and_not_again_as_the_curriculums():
    (problem,) = problems("curriculum=posterior", "sampler.k_pos=0")
    assert problem.startswith("sampler: k_pos must be at least 1")


def test_misspelt_keys_are_found():
    assert problems("curriculum=difficulty_band", "+curriculum.lo=0.2") == [
        "unknown key curriculum.lo; did you mean low?"
    ]


def test_the_data_module_gets_it_from_the_program():
    (problem,) = problems("+data.curriculum=mine")
    assert problem == "data.curriculum is filled in by the program and cannot be set; leave it out"


def test_absent_parts_are_left_alone():
    assert list(curriculum_errors(Setup(OmegaConf.create({"curriculum": None, "sampler": "${missing}"})))) == []
