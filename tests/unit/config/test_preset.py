"""Experiments as arguments of constructors: what a preset holds is what the program makes."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from ada_lightning.config.generated import CONFIG_DIR
from ada_lightning.config.preset import Preset
from ada_lightning.config.problems import ConfigError
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.rollout.service import RolloutService
from ada_lightning.training.policy import PolicyModule
from tests.unit.config.composing import composed

EXPERIMENTS = ("ada_seq_balance", "capo", "dapo", "flowrl", "gspo", "paper/grpo")
"""A token mask and a rate of its own; a refill and a threshold; parameters in the loss; several updates; lengths."""


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "python.md").read_text()


class NoPrompts:
    def train_prompts(self):
        return []

    heldout_prompts = train_prompts


def plain(part):
    """A part by its class and what it was made of."""
    if isinstance(part, list | tuple):
        return [plain(each) for each in part]
    if callable(part) and hasattr(part, "keywords"):
        return part.func, plain(dict(part.keywords))
    if isinstance(part, dict):
        return {name: plain(value) for name, value in part.items()}
    if type(part).__module__.startswith("ada_lightning"):
        names = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
        return type(part), {name: plain(value) for name, value in getattr(part, "__dict__", {}).items()}, [
            plain(getattr(part, name)) for name in names if name != "__weakref__"
        ]  # fmt: skip
    return part if isinstance(part, str | int | float | bool | None) else type(part)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_preset_has_the_parts_and_settings_that_the_program_makes(experiment, tmp_path):
    here = ["rollout=vllm_cpu"] if experiment.startswith("paper/") else []  # it wants a GPU, and says so
    cfg, preset = composed(f"+experiment={experiment}", *here), Preset(experiment, *here)
    for name in ("estimator", "sampler", "selection", "refill"):
        assert plain(getattr(preset.method, name)) == plain(instantiate(cfg[name])), name
    for name in ("advantage", "loss", "optimizer", "parameters"):
        assert plain(preset.policy[name]) == plain(instantiate(cfg[name])), name
    assert plain(preset.data["curriculum"]) == plain(instantiate(cfg.curriculum))
    assert [type(mask).__name__ for mask in preset.policy["token_masks"]] == [
        node["_target_"].rpartition(".")[2] for node in cfg.token_masks.values()
    ]
    service, expected = RolloutService(**preset.rollout), instantiate(cfg.rollout)
    assert (service.settings, service.sampling, service.max_model_tokens) == (
        expected.settings, expected.sampling, expected.max_model_tokens,
    )  # fmt: skip
    data = RolloutDataModule(source=NoPrompts(), **preset.data)
    for name in ("num_steps", "prompts_per_step", "num_minibatches", "epochs_per_rollout", "max_prompt_tokens"):
        assert getattr(data, name) == cfg.data[name], name
    policy = PolicyModule(tmp_path, **preset.policy)
    assert (policy.max_grad_norm, policy.temperature) == (cfg.policy.max_grad_norm, cfg.policy.temperature)


def test_a_preset_can_be_made_inside_of_a_hydra_program():
    with initialize_config_dir(str(CONFIG_DIR), version_base="1.3"):
        assert Preset("grpo", "num_steps=3").data["num_steps"] == 3
        assert compose("train", ["run_name=x"]).num_steps == 30


def test_settings_are_given_as_on_the_command_line_and_of_the_sampler_by_name():
    preset = Preset("ada_seq_balance", "num_steps=7", "sampler=positive", "optimizer.lr=3e-4", "seed=5", k_pos=3)
    assert (type(preset.method.sampler).__name__, preset.method.sampler.k_pos) == ("PositiveSampler", 3)
    assert (preset.data["num_steps"], preset.data["seed"], preset.rollout["seed"]) == (7, 5, 5)
    assert preset.policy["optimizer"].keywords["lr"] == 3e-4


@pytest.mark.parametrize(
    ("arguments", "sampler", "message"),
    [
        (["grpo", "model=tiny"], {}, r"model=tiny has no effect here: the model, the source of prompts"),
        (["grpo", "data=jsonl"], {}, r"data=jsonl has no effect here"),
        (["grpo", "data.source.num_train=9"], {}, r"data\.source\.num_train=9 has no effect here"),
        (["gpro"], {}, r"gpro.*grpo"),
        (["ada_seq_balance"], {"k_poss": 2}, r"sampler\.k_poss; did you mean k_pos"),
        (["ada_seq_balance"], {"n_max": 7}, r"n_max.*7"),
        (["ada_seq_balance", "selection.group_size=64"], {}, r"group_size = 64 exceeds sampler\.n_max = 32"),
    ],
)
def test_what_cannot_work_or_would_have_no_effect_is_refused(arguments, sampler, message):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        Preset(*arguments, **sampler)


def test_the_preset_of_the_page_is_one_on_a_cpu():
    (call,) = re.findall(r'`(Preset\("grpo", .*?\))`', PAGE)
    assert eval(call, {"Preset": Preset}).method.sampler.group_size == 8


def test_what_the_page_names_is_where_it_says():
    found = dict(re.findall(r"`(\w+)`(?: of| in| is in)\s+`(ada_lightning\.[\w.]+)`", PAGE))
    assert found.keys() >= {
        "Method", "BetaHistory", "BalanceSampler", "BalancedSelection", "FunctionReward", "read_model",
    }  # fmt: skip
    assert [name for name, module in found.items() if not hasattr(import_module(module), name)] == []
