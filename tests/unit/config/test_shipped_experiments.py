"""Every experiment that ships, those of the paper too, passes the check without weights, network or GPU."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from ada_lightning.config.check import ConfigError, check_config, override_errors, top_level_keys
from ada_lightning.training.models.pretrained import Pretrained
from ada_lightning.training.models.wheel import SmolLM2Wheel

CONF = Path(__file__).resolve().parents[3] / "conf"
FOLDER = CONF / "experiment"
EXPERIMENTS = sorted(str(file.relative_to(FOLDER).with_suffix("")) for file in FOLDER.rglob("*.yaml"))
PAPER_MODELS = ("qwen2_5_math_1_5b", "qwen2_5_math_7b", "llama3_2_3b_instruct", "qwen3_4b_instruct")
PAPER_METHODS = ("grpo", "ada_seq_pos", "ada_seq_balance")
PAPER = [f"paper/{model}_{method}" for model in PAPER_MODELS for method in PAPER_METHODS]


def composed(*overrides: str) -> DictConfig:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train", overrides=list(overrides))


@pytest.fixture(scope="module")
def known_keys():
    return top_level_keys(CONF, "train")


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


def data_overrides(experiment: str, prompts_file: Path) -> list[str]:
    """Say where the data is, for experiments that leave it to the user."""
    is_open = OmegaConf.is_missing(composed(f"+experiment={experiment}").data.source, "path")
    return [f"data.source.path={prompts_file}"] if is_open else []


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_experiment_composes_and_passes_the_check(experiment, prompts_file, known_keys, nothing_to_run_on):
    overrides = [f"+experiment={experiment}", *data_overrides(experiment, prompts_file)]
    assert override_errors(overrides, CONF, "train") == []
    cfg = composed(*overrides)
    check_config(cfg, known_keys)
    assert cfg.experiment_name == experiment.replace("/", "_") or cfg.experiment_name == experiment


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_first_comment_is_the_command(experiment):
    lines = (FOLDER / f"{experiment}.yaml").read_text().splitlines()
    assert lines[0] == "# @package _global_"
    assert lines[1].startswith(f"# python train.py +experiment={experiment}")


def test_paper_has_every_method_for_every_model():
    assert sorted(PAPER) == [name for name in EXPERIMENTS if name.startswith("paper/")]


@pytest.mark.parametrize("experiment", PAPER)
def test_paper_run_is_named_after_its_model_and_trains_it(experiment):
    cfg = composed(f"+experiment={experiment}")
    name = experiment.removeprefix("paper/")
    assert cfg.experiment_name == f"paper_{name}"
    model = next(model for model in PAPER_MODELS if name.startswith(model))
    assert cfg.model == OmegaConf.load(CONF / "model" / f"{model}.yaml")


@pytest.mark.parametrize("model", PAPER_MODELS)
def test_methods_of_the_paper_differ_in_nothing_but_the_method(model):
    shared = []
    for method in PAPER_METHODS:
        plain: Any = OmegaConf.to_container(composed(f"+experiment=paper/{model}_{method}"), resolve=False)
        for key in ("sampler", "selection", "advantage", "experiment_name"):
            plain.pop(key)
        plain["loss"].pop("dual_clip")  # their two scripts differ in it
        shared.append(plain)
    assert shared[0] == shared[1] == shared[2]


@pytest.mark.parametrize(
    ("method", "sampler", "advantage", "sizes", "dual_clip"),
    [
        ("grpo", "UniformSampler", "GroupNormalizedAdvantage", {"group_size": 4}, 3.0),
        (
            "ada_seq_pos",
            "PositiveSampler",
            "PoolMeanAdvantage",
            {"group_size": 4, "k_pos": 1, "samples_per_round": 4, "n_max": 32},
            10.0,
        ),
        (
            "ada_seq_balance",
            "BalanceSampler",
            "PoolMeanAdvantage",
            {"group_size": 4, "k_pos": 2, "k_neg": 2, "samples_per_round": 4, "n_max": 32},
            10.0,
        ),
    ],
)
def test_methods_are_the_published_ones(method, sampler, advantage, sizes, dual_clip):
    cfg = composed(f"+experiment=paper/llama3_2_3b_instruct_{method}")
    assert cfg.sampler._target_.endswith(sampler)
    assert cfg.advantage._target_.endswith(advantage)
    assert {name: cfg.sampler[name] for name in sizes} == sizes
    assert cfg.loss.dual_clip == dual_clip


def test_paper_settings_are_those_of_the_paper():
    """Reference sections 3.2 and 3.3, written out once more."""
    cfg = composed("+experiment=paper/qwen2_5_math_1_5b_ada_seq_balance")
    assert (cfg.data.prompts_per_step, cfg.data.num_minibatches, cfg.num_steps) == (512, 4, 600)
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay) == (1e-6, 0.0)
    assert cfg.policy.warmup_steps == 10 * cfg.data.num_minibatches
    assert (cfg.loss.clip_low, cfg.loss.clip_high, cfg.loss.entropy_coef, cfg.loss.kl_coef) == (0.2, 0.28, 1e-4, 0.0)
    assert cfg.loss.reduction._target_.endswith("TokenMeanReduction")
    assert (cfg.data.max_prompt_tokens, cfg.rollout.sampling.max_new_tokens) == (1024, 2048)
    assert cfg.rollout.sampling.temperature == 1.0
    assert cfg.policy.max_grad_norm == 1.0
    assert cfg.policy.gradient_checkpointing
    assert (cfg.trainer.accelerator, cfg.trainer.precision) == ("cuda", "bf16-mixed")
    assert cfg.reward.reward.extraction._target_.endswith("LastBoxed")
    assert cfg.data.source.system_prompt.endswith(r"within \boxed{}.")
    assert cfg.data.source.prompt_template.startswith("{prompt} ")
    assert cfg.data.source.prompt_template.endswith(r"within \boxed{}.")


def test_exact_update_of_a_paper_run_is_two_settings_away(prompts_file, known_keys, nothing_to_run_on):
    overrides = [
        "+experiment=paper/qwen2_5_math_1_5b_ada_seq_balance",
        f"data.source.path={prompts_file}",
        "advantage=exact",
        "loss/reduction=constant",
    ]
    assert override_errors(overrides, CONF, "train") == []
    cfg = composed(*overrides)
    check_config(cfg, known_keys)
    assert cfg.advantage._target_.endswith("ExactAdvantage")
    assert cfg.loss.reduction._target_.endswith("ConstantReduction")


@pytest.mark.parametrize(
    "overrides",
    [
        ("curriculum=posterior", "curriculum/usefulness=learnability"),
        ("+experiment=gvm_raft", "sampler/gradient_norm=constant"),
        ("+experiment=vip", "estimator/embedding=sentence", "loss/reduction=constant"),
        ("-m", "curriculum=posterior,mopps", "curriculum/usefulness=learnability,near_target"),
    ],
)
def test_a_part_that_only_the_chosen_option_has_can_be_chosen(overrides):
    assert override_errors(list(overrides), CONF, "train") == []


def test_a_part_that_the_chosen_option_lacks_is_explained():
    assert override_errors(["curriculum/usefulness=learnability"], CONF, "train") == [
        "curriculum/usefulness=learnability: curriculum=uniform has no usefulness to choose; "
        "choose another curriculum, or leave it out"
    ]
    (error,) = override_errors(["curriculum=posterior", "curriculum/usefulness=learnabilty"], CONF, "train")
    assert "did you mean learnability?" in error


@pytest.mark.parametrize("plus", ["", "+"])
def test_a_logging_interval_that_nothing_would_follow_is_refused(plus):
    said = "trainer.log_every_n_steps has no effect: every update is logged"
    (error,) = override_errors([f"{plus}trainer.log_every_n_steps=5"], CONF, "train")
    assert said in error
    with pytest.raises(ConfigError, match=said):
        check_config(composed("+experiment=grpo", "model=tiny", "++trainer.log_every_n_steps=5"))
