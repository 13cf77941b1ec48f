"""Every experiment that ships passes the check without weights, network or GPU, and is what its comments say."""

from __future__ import annotations

import json
import math
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ada_lightning.config.check import check_config, override_errors
from ada_lightning.config.described import described
from ada_lightning.core.records import Completion
from ada_lightning.core.stopping import FixedRule, QuotaRule
from ada_lightning.methods.catalog import experiments
from ada_lightning.methods.objectives import LinearObjective, PassAtKObjective
from ada_lightning.programs.start import CONFIG_DIR as CONF
from ada_lightning.training.models.pretrained import Pretrained
from ada_lightning.training.models.wheel import SmolLM2Wheel
from tests.unit.config.composing import composed

FOLDER = CONF / "experiment"
EXPERIMENTS = experiments(CONF)
PAPER_MODELS = ("qwen2_5_math_1_5b", "qwen2_5_math_7b", "llama3_2_3b_instruct", "qwen3_4b_instruct")
PAPER_METHODS = ("grpo", "grpo_n8", "grpo_n16", "dapo", "ada_seq_pos", "ada_seq_balance", "ada_est")

MADE_OF = {
    "ada_est_ema": "EmaEstimator EstimatedSampler AllSelection ExactAdvantage ConstantReduction",
    "ada_est_value": "ValueNetworkEstimator EstimatedSampler AllSelection ExactAdvantage ConstantReduction",
    "ada_est_ema_paper": "EmaEstimator EstimatedSampler AllSelection PoolMeanAdvantage TokenMeanReduction",
    "ada_est_ema_implicit": "EmaEstimator EstimatedSampler AllSelection PoolMeanAdvantage TokenMeanReduction",
    "vip": "VipSampler GaussianProcessEstimator AllSelection LeaveOneOutAdvantage PromptMeanReduction",
    "vip_dr_grpo": "VipSampler GaussianProcessEstimator AllSelection GroupNormalizedAdvantage PromptMeanReduction",
    "knapsack": "KnapsackSampler WindowEstimator AllSelection GroupNormalizedAdvantage TokenMeanReduction",
    "coba_rl": "CobaSampler WindowEstimator AllSelection GroupNormalizedAdvantage TokenMeanReduction",
    "gvm_raft": "GvmSampler PositivesSelection AcceptedAdvantage PromptMeanReduction",
    "gvm_grpo": "GvmSampler AllSelection GroupNormalizedAdvantage PromptMeanReduction",
    "dars_et": "DarsSampler AllSelection GroupNormalizedAdvantage ConstantReduction",
    "dars_hw": "DarsSampler AllSelection GroupNormalizedAdvantage ConstantReduction",
    "xrpo": "XrpoSampler AllSelection NoveltyAdvantage ConstantReduction",
    "pilot_commit": "PilotCommitSampler ResolvedSelection GroupNormalizedAdvantage TokenMeanReduction DifficultyBand",
    "speed_rl": "SpeedSampler AllSelection LeaveOneOutAdvantage ConstantReduction",
    "mopps": "UniformSampler AllSelection GroupNormalizedAdvantage ConstantReduction PosteriorSampling",
    "lilo": "UniformSampler AllSelection LeaveOneOutAdvantage ConstantReduction PosteriorSampling",
    "ada_spread_partial_credit": "SpreadSampler StratifiedSelection WeightedLeaveOneOutAdvantage",
    "spo": "KlHistory UniformSampler AllSelection BatchWhitenedAdvantage TokenMeanReduction WeightedDraw",
    "token_division": "BetaHistory VipSampler AllSelection HistoryBaselineAdvantage PromptMeanReduction",
    "prompt_replay": "PromptReplay UniformSampler GroupNormalizedAdvantage",
    "recycling": "RetiredCurriculum UniformSampler GroupNormalizedAdvantage",
    "shrinkage_baseline": "BetaHistory UniformSampler ShrinkageBaselineAdvantage ConstantReduction",
    "dpo": "BalanceSampler BalancedSelection DpoAdvantage ConstantReduction",
    "ipo": "BalanceSampler BalancedSelection IpoAdvantage ConstantReduction",
    "reward_distillation": "UniformSampler AllSelection RewardDistillationAdvantage ConstantReduction",
    "representation_preference": "UniformSampler AllSelection RepresentationPreferenceAdvantage ConstantReduction",
    "inverse_rl": "InverseRlSampler AllSelection LeaveOneOutAdvantage ConstantReduction",
    "cgrpo": "CGrpoSampler AllSelection GroupNormalizedAdvantage ConstantReduction",
    "ada_diverse": "SimilarPrompts DiverseUsefulness UniformSampler HistoryBaselineAdvantage",
    "paper/ada_est": "EmaEstimator EstimatedSampler PoolMeanAdvantage TokenMeanReduction",
    "paper/grpo": "UniformSampler GroupNormalizedAdvantage TokenMeanReduction",
    "paper/ada_seq_pos": "PositiveSampler PoolMeanAdvantage TokenMeanReduction",
    "paper/ada_seq_balance": "BalanceSampler PoolMeanAdvantage TokenMeanReduction",
}
PLAN = {"responses_per_prompt": 8, "n_min": 2, "n_max": 128, "group_size": 128}
ESTIMATED = PLAN | {"gamma": 0.5, "n_max": 32, "group_size": 32}
AS_PUBLISHED = {"importance_cap": 0.0, "dual_clip": math.inf}
DAPO_LOSS = {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 10.0, "importance_cap": 0.0, "kl_coef": 0.0}
VALUES = [
    ("ada_est_ema", "sampler", ESTIMATED),
    ("ada_est_value", "sampler", ESTIMATED),
    ("ada_est_ema_paper", "sampler", ESTIMATED),
    ("ada_est_ema_paper", "advantage", {"weight_power": 0.5}),  # the two ways to weight by 1/p
    ("ada_est_ema_implicit", "sampler", PLAN | {"gamma": 1.0, "n_min": 1, "n_max": 256, "group_size": 256}),
    ("ada_est_ema_implicit", "advantage", {"weight_power": 0.0}),
    ("vip", "sampler", ESTIMATED | {"n_min": 3, "gamma": None}),
    ("vip_dr_grpo", "advantage", {"normalize_std": False}),
    ("knapsack", "sampler", PLAN),
    ("knapsack", "advantage", {"normalize_std": True}),
    ("coba_rl", "sampler", PLAN),
    ("gvm_raft", "sampler", {"num_pilot": 8, "responses_per_prompt": 16, "alpha": 1e-3, "beta": 2.0}),
    ("dars_et", "advantage", {"normalize_std": False}),
    ("dars_hw", "advantage", {"normalize_std": False}),
    ("mopps", "estimator.prior", {"alpha": 1.0, "beta": 1.0}),
    ("mopps", "estimator", {"decay": 0.5}),
    ("mopps", "curriculum", {"candidate_ratio": 8, "revisit_ratio": 0}),
    ("mopps", "curriculum.usefulness", {"target": 0.5}),
    ("grpo", "sampler", {"group_size": 4}),
    ("grpo_n16", "sampler", {"group_size": 16}),
    ("dapo", "loss", DAPO_LOSS),
    ("dapo", "refill", {"component": "correct"}),
    ("greso", "refill", {"slack": 1.25}),
    ("ada_seq_balance_official", "loss", AS_PUBLISHED | {"dual_clip": 10.0}),
    ("ada_seq_balance_paper_v3", "loss", AS_PUBLISHED),
    ("ada_est_ema_implicit", "loss", AS_PUBLISHED),
    ("ada_est_ema_paper", "loss", AS_PUBLISHED),
    ("spo", "sampler", {"group_size": 1}),
    ("spo", "estimator", {"rho_min": 0.875, "rho_max": 0.96, "half_life": 0.06}),
    ("spo", "curriculum", {"floor": 0.05, "gamma": 0}),
    ("spo", "loss", DAPO_LOSS),
    ("dpo", "loss", {"importance_cap": 0.0}),
    ("dpo", "loss.reduction", {"token_scale": 1.0}),
    ("reward_distillation", "loss", {"importance_cap": 0.0}),
    ("reward_distillation", "loss.reduction", {"token_scale": 1.0}),
    ("representation_preference", "loss.reduction", {"token_scale": 1.0}),
    ("inverse_rl", "loss", {"kl_coef": 0.1}),
    ("cgrpo", "sampler", {"budgets": [2, 4, 8, 16, 32], "recalibrate_every": 50, "delta": None}),
    ("token_division", "sampler", ESTIMATED | {"n_min": 1, "gamma": None, "by_tokens": True}),
    ("prompt_replay", "curriculum", {"low": 0.25, "high": 0.75, "share": 0.75, "cooldown": 10, "max_reuses": 15}),
    ("paper/grpo_n8", "sampler", {"group_size": 8}),
    ("paper/grpo_n16", "sampler", {"group_size": 16}),
    ("paper/dapo", "refill", {"component": "", "max_ratio": 10}),
    ("paper/dapo", "loss", {"dual_clip": 10.0}),
    ("paper/ada_est", "sampler", ESTIMATED),
    ("paper/ada_est", "advantage", {"weight_power": 0.5}),
    ("paper/grpo", "sampler", {"group_size": 4}),
    ("paper/grpo", "loss", {"dual_clip": 3.0}),
    ("paper/ada_seq_pos", "sampler", {"group_size": 4, "k_pos": 1, "samples_per_round": 4, "n_max": 32}),
    ("paper/ada_seq_balance", "sampler",
     {"group_size": 4, "k_pos": 2, "k_neg": 2, "samples_per_round": 4, "n_max": 32}),
    ("paper/ada_seq_balance", "loss", {"dual_clip": 10.0}),
]  # fmt: skip
LOSSES = {
    "grpo": ("ClippedPolicyLoss", "ResponseMeanReduction", {"clip_high": 0.2, "kl_coef": 0.04, "importance_cap": 0.0}),
    "dr_grpo": ("ClippedPolicyLoss", "PromptMeanReduction", {"clip_high": 0.2, "kl_coef": 0.0, "importance_cap": 0.0}),
    "dapo": ("ClippedPolicyLoss", "TokenMeanReduction", DAPO_LOSS),
    "gspo": ("GspoLoss", "ResponseMeanReduction", {"clip_low": 3e-4, "clip_high": 4e-4}),
    "cispo": ("CispoLoss", "TokenMeanReduction", {"clip_low": 1.0, "clip_high": 4.0}),
    "reinforce": ("ReinforceLoss", "", {"importance_cap": 2.0}),
    "raft_plus_plus": ("RaftLoss", "ResponseMeanReduction", {"clip_high": 0.2}),
    "divergence_tv": ("DivergencePolicyLoss", "PromptMeanReduction", {"delta_low": 0.15, "ratio_cap": 3.0}),
    "divergence_kl": ("DivergencePolicyLoss", "PromptMeanReduction", {"delta_low": 0.05, "ratio_cap": 3.0}),
}


def experiment(name, *overrides):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", [f"+experiment={name}", *overrides])


def totals(name):
    return instantiate(experiment(name).sampler).rule.totals


@pytest.fixture(scope="module")
def prompts_file(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("data") / "prompts.jsonl"
    rows = ({"prompt": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(300))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def nothing_to_run_on(monkeypatch):
    """No GPU, no network, no weights: whoever asks for one of them fails the test."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the check must not need this")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(Pretrained, "prepare", refuse)
    monkeypatch.setattr(SmolLM2Wheel, "prepare", refuse)
    # By design this one asks the hub whether the model is there, for a few kilobytes; it has tests of its own.
    monkeypatch.setattr(Pretrained, "check", lambda self: None)


@pytest.mark.thinned(40)
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, ()) for name in EXPERIMENTS),
        # the exact update of a paper run is two settings away
        ("paper/ada_seq_balance", ("advantage=exact", "loss/reduction=constant")),
        *((name, ("curriculum=uniform",)) for name in ("ada", "lilo", "mopps")),
    ],
)
def test_experiment_composes_under_its_name_and_passes_the_check(name, changes, prompts_file, nothing_to_run_on):
    if (file := FOLDER / f"{name}.yaml").exists():
        lines = file.read_text().splitlines()
        assert lines[0] == "# @package _global_"
        assert lines[1].startswith(f"# python train.py +experiment={name}")
    if changes:
        assert override_errors([f"+experiment={name}", *changes], CONF, "train") == []
    cfg = experiment(name, *changes)
    if OmegaConf.is_missing(cfg.data.source, "path"):  # it leaves the data to the user
        cfg.data.source.path = str(prompts_file)
    check_config(cfg)
    assert cfg.experiment_name == name.replace("/", "_")


@pytest.mark.parametrize("name", MADE_OF)
def test_experiment_is_made_of_what_its_comments_say(name):
    cfg = experiment(name)
    keys = ("estimator", "sampler", "selection", "advantage", "loss.reduction", "curriculum")
    made = {OmegaConf.select(cfg, f"{key}._target_", default="").rpartition(".")[2] for key in keys}
    assert set(MADE_OF[name].split()) <= made


@pytest.mark.parametrize(("name", "part", "values"), VALUES)
def test_experiment_has_the_published_numbers(name, part, values):
    made = instantiate(OmegaConf.select(experiment(name), part.partition(".")[0]))
    for attribute in part.split(".")[1:]:
        made = getattr(made, attribute)
    settings = OmegaConf.select(experiment(name), part, default={})  # what the part does not keep as it is
    assert {key: getattr(made, key, settings.get(key)) for key in values} == values


def test_stages_and_variances_are_the_published_ones():
    assert totals("dars_et")[:4] == (32, 19, 11, 9)
    assert totals("dars_hw")[:4] == (64, 32, 16, 11)
    assert set(totals("pilot_commit")) == {16, 64}
    assert set(totals("speed_rl")) == {4, 24}
    for name, variance in (("vip", "RlooVariance"), ("vip_dr_grpo", "DrGrpoVariance")):
        assert type(instantiate(experiment(name).sampler).variance).__name__ == variance
    implicit = experiment("ada_est_ema_implicit")  # its limit is none that a step could reach
    assert implicit.sampler.n_max >= implicit.sampler.responses_per_prompt * implicit.data.prompts_per_step
    assert not instantiate(composed().refill).is_on
    assert instantiate(experiment("dapo").refill).first_wave(8) == 8
    assert instantiate(experiment("greso").refill).first_wave(256) == 384
    assert instantiate(experiment("dapo").reward.reward).max_tokens == composed().rollout.sampling.max_new_tokens


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_what_its_name_says(name):
    kind, reduction, values = LOSSES[name]
    loss = instantiate(composed(f"loss={name}").loss)
    assert type(loss).__name__ == kind
    assert type(loss.reduction).__name__ == reduction or not reduction
    assert {key: getattr(loss, key) for key in values} == values


def test_parts_of_a_loss_are_choices():
    loss = instantiate(composed("loss=cispo", "loss/importance=sequence_truncation", "loss/reduction=constant").loss)
    assert type(loss.importance).__name__ == "SequenceTruncation"
    assert type(instantiate(composed("loss=divergence_kl").loss).divergence).__name__ == "BinaryKl"


def test_raft_plus_plus_as_in_its_code_is_a_few_settings_away():
    header = described("raft_plus_plus").partition("defaults:")[0]
    settings = re.findall(r"[\w./]+=[\w.]*\w", header.replace("\n# ", " ").partition("For that type")[2])
    cfg = experiment("raft_plus_plus", *settings)
    check_config(cfg)
    loss = instantiate(cfg.loss)
    assert (type(loss.reduction).__name__, cfg.selection._target_.rpartition(".")[2]) == (
        "TokenMeanReduction",
        "AllSelection",
    )
    assert (loss.clip_high, loss.kl_coef, loss.entropy_coef, loss.importance_cap) == (0.2, 0.001, 0.001, 0.0)


def test_grpo_n16_is_grpo_but_for_the_size_of_its_groups():
    large, small = experiment("grpo_n16"), experiment("grpo")
    assert all(large[part] == small[part] for part in ("selection", "advantage", "loss", "estimator"))


def test_partial_credit_is_a_reward_between_0_and_1():
    cfg = experiment("ada_spread_partial_credit", "data.source.num_train=20", "data.source.num_heldout=0")
    reward = instantiate(cfg.reward.reward)
    for prompt in instantiate(cfg.data.source).train_prompts():
        answer = prompt.reference["answer"]
        assert reward(prompt, Completion(f"{answer}\n")).reward == pytest.approx(1.0)
        assert reward(prompt, Completion("")).reward == 0.0
        assert reward(prompt, Completion(answer[0] + "#" * (len(answer) - 1))).reward == pytest.approx(1 / len(answer))


@pytest.mark.parametrize("model", PAPER_MODELS)
def test_methods_of_the_paper_differ_in_nothing_but_the_method(model):
    shared = []
    for method in PAPER_METHODS:
        cfg = experiment(f"paper/{method}", f"model={model}")
        assert cfg.model == OmegaConf.load(CONF / "model" / f"{model}.yaml")
        plain: Any = OmegaConf.to_container(cfg, resolve=False)
        for key in ("sampler", "selection", "advantage", "estimator", "refill", "experiment_name"):
            plain.pop(key)
        plain["loss"].pop("dual_clip")  # their two scripts differ in it
        shared.append(plain)
    assert all(each == shared[0] for each in shared)


def test_a_run_of_the_paper_is_named_by_method_and_model():
    for model, name in (
        ((), "Qwen2.5-Math-1.5B"),
        (("model=llama3_2_3b_instruct",), "Llama-3.2-3B-Instruct"),
        (("model=pretrained", "model.path=/a/folder"), "folder"),
        (("model=tiny",), "TinyLlama"),
    ):
        assert experiment("paper/ada_est", *model).run_name.startswith(f"paper_ada_est-{name}-20")


def test_the_scripts_grpo_is_the_papers_but_for_what_the_script_says():
    script, paper = (experiment(f"paper/{name}") for name in ("grpo_script", "grpo"))
    for key, value in (
        ("num_steps", 400), ("policy.warmup_steps", 0), ("loss.entropy_coef", 0.0), ("optimizer.weight_decay", 0.01),
        ("experiment_name", "paper_grpo_script"),
    ):  # fmt: skip
        assert OmegaConf.select(script, key) == value != OmegaConf.select(paper, key)
        OmegaConf.update(paper, key, value)
    assert OmegaConf.to_container(script) == OmegaConf.to_container(paper)


def test_paper_settings_are_those_of_the_paper():
    """Reference sections 3.2 and 3.3, written out once more."""
    cfg = experiment("paper/ada_seq_balance")
    assert (cfg.data.prompts_per_step, cfg.data.num_minibatches, cfg.num_steps) == (512, 4, 600)
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay) == (1e-6, 0.0)
    assert cfg.policy.warmup_steps == 10 * cfg.data.num_minibatches
    assert (cfg.loss.clip_low, cfg.loss.clip_high, cfg.loss.entropy_coef, cfg.loss.kl_coef) == (0.2, 0.28, 1e-4, 0.0)
    assert (cfg.data.max_prompt_tokens, cfg.rollout.sampling.max_new_tokens) == (1024, 2048)
    assert (cfg.rollout.sampling.temperature, cfg.policy.max_grad_norm) == (1.0, 1.0)
    assert cfg.policy.gradient_checkpointing
    assert (cfg.trainer.accelerator, cfg.trainer.precision) == ("cuda", "bf16-mixed")
    assert cfg.reward.reward.extraction._target_.endswith("LastBoxed")


def test_a_missing_history_file_is_a_problem_of_the_configuration(tmp_path):
    with pytest.raises(ValueError, match=r"none\.json cannot be read \(No such file or directory\); give the path"):
        check_config(experiment("ada_est_ema", f"estimator.history_file={tmp_path}/none.json"))


def test_the_usefulness_is_that_of_the_runs_own_sampler_and_objective():
    def usefulness(*overrides):
        return instantiate(composed("curriculum=posterior", *overrides).curriculum).usefulness

    own = usefulness("sampler.n_max=16", "objective=pass_at_k", "objective.k=3")
    assert own.rule == QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=16)
    assert own.objective == PassAtKObjective(3)
    without = usefulness("advantage=official", "sampler=uniform", "sampler.group_size=6")
    assert (without.objective, without.rule) == (LinearObjective(), FixedRule(6))
    learnability = composed("curriculum=posterior", "curriculum/usefulness=learnability").curriculum
    assert composed("curriculum=learnability").curriculum == learnability
    assert type(instantiate(learnability).usefulness).__name__ == "Learnability"


@pytest.mark.parametrize(
    "overrides",
    [
        ("+experiment=gvm_raft", "sampler/gradient_norm=constant"),
        ("+experiment=vip", "estimator/embedding=sentence", "loss/reduction=constant"),
        ("-m", "curriculum=posterior,mopps", "curriculum/usefulness=learnability,near_target"),
    ],
)
def test_a_part_that_only_the_chosen_option_has_can_be_chosen(overrides):
    assert override_errors(list(overrides), CONF, "train") == []


def test_an_experiment_that_is_not_there_gets_the_nearest_ones():
    (error,) = override_errors(["+experiment=gpro"], CONF, "train")
    (near,) = re.findall(r"^unknown option experiment=gpro; did you mean (.*?)\? options: ", error)
    assert re.split(", | or ", near) == ["gspo", "grpo", "gdpo"]
    assert near.count(" or ") == 1
    (error,) = override_errors(["sampler=balance_posteriors"], CONF, "train")
    assert "did you mean balance_posterior or positive_posterior? " in error
    (error,) = override_errors(["+experiment=GRPO"], CONF, "train")
    assert error.startswith("unknown option experiment=GRPO; did you mean grpo? options: ")
    assert override_errors(["sampler.N_MAX=8"], CONF, "train") == ["unknown key sampler.N_MAX; did you mean n_max?"]


def test_the_name_of_an_experiment_alone_is_explained_where_experiments_are():
    assert override_errors(["grpo"], CONF, "train") == [
        "grpo: an argument is key=value; did you mean +experiment=grpo?"
    ]
    assert override_errors(["GRPO"], CONF, "train") == [
        "GRPO: an argument is key=value; did you mean +experiment=grpo?"
    ]
    (error,) = override_errors(["grpo"], CONF, "prepare")
    assert "+experiment" not in error


def test_a_part_that_the_chosen_option_lacks_is_explained():
    assert override_errors(["curriculum/usefulness=learnability"], CONF, "train") == [
        "curriculum/usefulness=learnability: curriculum=uniform has no usefulness to choose; "
        "choose another curriculum, or leave it out"
    ]
    (error,) = override_errors(["curriculum=posterior", "curriculum/usefulness=learnabilty"], CONF, "train")
    assert "did you mean learnability?" in error
    (error,) = override_errors(["+trainer.log_every_n_steps=5"], CONF, "train")
    assert "trainer.log_every_n_steps has no effect: every update is logged" in error
