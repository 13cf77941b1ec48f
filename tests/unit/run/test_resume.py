"""What a resume says of settings that changed, and that it does not go on with another method unnoticed."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import torch
from hydra import compose, initialize_config_dir

from ada_lightning.methods.catalog import experiments
from ada_lightning.programs.start import CONFIG_DIR as CONF
from ada_lightning.programs.train import changes_at_resume
from ada_lightning.programs.training_run import check_remembered
from ada_lightning.run.resume import changed_settings, check_same_shape, experiment_option
from ada_lightning.run.run_dir import RunDir


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Compose a command line; with the changes that it makes to a run started with another one."""
    monkeypatch.chdir(tmp_path)

    def composed(*overrides):
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose("train", ["run_name=mine", "model=tiny", *overrides])

    def changes(first, *later):
        run_dir = RunDir("runs/mine")
        run_dir.write_config(composed(*first))
        (run_dir.checkpoints / "step_000010").mkdir(parents=True, exist_ok=True)
        return changes_at_resume(composed(*later), run_dir)

    return changes


def test_a_resume_without_the_experiment_is_refused_with_the_way_back(start):
    with pytest.raises(ValueError, match=r"sampler: UniformSampler -> BalanceSampler") as refused:
        start(["+experiment=grpo"], "ckpt=last")
    text = str(refused.value)
    for part in ("selection: ", "advantage: GroupNormalizedAdvantage -> ", "objective: none -> "):
        assert part in text
    assert "+experiment=grpo ... ckpt=last run_name=mine" in text
    assert "allow_other_method=true" in text


def test_another_method_may_be_allowed_and_is_said(start):
    said = start(["+experiment=grpo"], "ckpt=last", "allow_other_method=true")
    assert "  experiment_name: grpo -> custom" in said
    assert not any("allow_other_method" in line for line in said)


def test_where_the_experiment_is_unknown_the_file_with_the_settings_is_named(start):
    with pytest.raises(ValueError, match=r"those in runs/mine/config.yaml ... ckpt=last run_name=mine"):
        start(["sampler=positive"], "ckpt=last")


def test_settings_that_differ_are_said_and_nothing_where_none_do(start):
    assert start(["+experiment=grpo"], "+experiment=grpo", "ckpt=last") == []
    said = start(["+experiment=grpo"], "+experiment=grpo", "ckpt=auto", "optimizer.lr=5e-4", "num_steps=40")
    assert said[0] == "continuing with other settings than before:"
    assert {line.split(":")[0].strip() for line in said[1:]} == {"num_steps", "data.num_steps", "optimizer.lr"}
    assert "  num_steps: 30 -> 40" in said
    assert start(["+experiment=grpo"]) == []  # a fresh start compares nothing
    # the newest settings count
    assert start(["+experiment=grpo", "num_steps=50"], "+experiment=grpo", "num_steps=50", "ckpt=last") == []


def test_another_optimiser_is_refused_and_other_settings_of_it_are_not(start):
    other = ["optimizer._target_=torch.optim.RMSprop", "~optimizer.betas", "~optimizer.fused"]
    message = (
        r"optimizer: AdamW -> RMSprop: this run's checkpoint holds the state of AdamW, and not of RMSprop; "
        r"continue with optimizer\._target_=torch\.optim\.AdamW, or start a new run"
    )
    for allowed in ("true", "false"):
        with pytest.raises(ValueError, match=message):
            start([], "ckpt=last", f"allow_other_method={allowed}", *other)
    assert "  optimizer.lr: 1e-05 -> 0.1" in start([], "ckpt=last", "optimizer.lr=0.1")


def test_the_folder_of_the_run_is_the_same_however_it_is_spelt():
    old = {"run_dir": "/x/runs/a", "run_name": "a", "trainer": {"default_root_dir": "/x/runs/a", "devices": 1}}
    new = {"run_dir": "runs/a", "run_name": "b", "trainer": {"default_root_dir": "runs/a", "devices": 2}}
    assert changed_settings(old, new) == {"trainer.devices": (1, 2)}


def test_an_experiment_of_the_paper_is_named_by_its_file():
    named = {"experiment_name": "paper_grpo_n8"}
    assert experiment_option(named, experiments(CONF)) == "+experiment=paper/grpo_n8"
    assert experiment_option({"experiment_name": "custom"}, experiments(CONF)) == ""


def test_another_model_or_other_parameters_are_refused_like_another_method(start):
    with pytest.raises(ValueError, match=r"parameters: AllParameters -> LoraParameters\)"):
        start(["+experiment=grpo"], "+experiment=grpo", "ckpt=last", "parameters=lora")
    with pytest.raises(
        ValueError, match=r"another model \(model: TinyLlama -> SmolLM2Wheel\).*ckpt=last run_name=mine"
    ):
        start(["+experiment=grpo"], "+experiment=grpo", "ckpt=last", "model=smollm2_135m")
    with pytest.raises(ValueError, match=r"another model \(model.hidden_size: 128 -> 256"):
        start(["+experiment=grpo"], "+experiment=grpo", "ckpt=last", "model.hidden_size=256", "model.num_heads=8")
    assert start(["+experiment=grpo"], "+experiment=grpo", "ckpt=last", "model.cache_dir=/elsewhere")


def test_weights_that_do_not_fit_are_refused_before_a_model_loads(tmp_path):
    sizes = {
        "checkpoint/policy": {"hidden_size": 128, "other": 1},
        "same": {"hidden_size": 128},
        "large": {"hidden_size": 256},
    }
    for name, entries in sizes.items():
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(json.dumps(entries))
    check_same_shape(tmp_path / "same", tmp_path / "checkpoint")
    with pytest.raises(ValueError, match=r"another model .*hidden_size: 128 -> 256"):
        check_same_shape(tmp_path / "large", tmp_path / "checkpoint")


KNOWN = {"counts": {"a": [1.0, 2.0]}, "_class": "BetaHistory"}


@pytest.mark.parametrize(
    ("options", "state", "refused"),
    [
        (("estimator=ema",), {"estimator": KNOWN}, "estimator: .*BetaHistory remembers, and EmaEstimator cannot read"),
        (("estimator=ema",), {"estimator": KNOWN | {"counts": {}}}, ""),
        (("estimator=beta_history",), {"estimator": KNOWN}, ""),
        ((), {"ahead": {"max_staleness": 2}}, "rollout.max_staleness = 0, but this run has prepared its steps with 2"),
        ((), {"curriculum": {"p": torch.empty(3, device="meta"), "_class": "Greso"}}, "curriculum: .* what Greso"),
        (("data.num_minibatches=4",), {}, "data.num_minibatches = 4, but this run has counted its updates with 1"),
        ((), {}, ""),
    ],
)
def test_what_a_run_remembers_is_refused_before_a_model_loads(options, state, refused):
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("train", ["run_name=mine", "model=tiny", "curriculum=uniform", *options])
    data = {"num_minibatches": 1, "epochs_per_rollout": 1}
    data |= {"curriculum": state["curriculum"]} if "curriculum" in state else {}
    with pytest.raises(ValueError, match=refused) if refused else nullcontext():
        check_remembered(cfg, {"callbacks": {"AdaptiveSampling": state}, "RolloutDataModule": data})
