"""Arguments of parts that are refused before any model loads, whoever their constructor belongs to."""

from __future__ import annotations

import sys

import pytest
from hydra.utils import instantiate
from lightning.pytorch import Callback

from ada_lightning.config.check import check_config
from ada_lightning.config.evaluation import check_evaluation
from ada_lightning.config.prepare import check_prepare_config
from ada_lightning.config.problems import ConfigError
from ada_lightning.rollout.engines import ray_pool
from ada_lightning.rollout.engines.vllm_engine import VllmEngine
from tests.unit.config.composing import composed, problems


class NoCallback:
    """Whatever it is."""


class Connecting(Callback):
    """A callback of somebody else, whose constructor does more than to note what it is given."""

    def __init__(self) -> None:
        raise AssertionError("made by the check")


@pytest.mark.thinned(15)
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            f"+callbacks.mine._target_={__name__}.NoCallback",
            f"callbacks.mine: {__name__}.NoCallback is no Callback of Lightning; inherit from lightning.",
        ),
        ("num_steps=0", "data: num_steps must be at least 1; got 0"),  # the key that was typed, and once
        ("data.source.num_train=0", "data.source: data.source.num_train must be at least 1; got 0"),
        ("data.num_minibatches=99", "data: data.num_minibatches = 99 exceeds data.prompts_per_step = 32: a minibatch "),
        ("+data.curriculum=mine", "data.curriculum is filled in by the program and cannot be set; leave it out"),
        ("+policy.loss=flowrl", "policy.loss is filled in by the program and cannot be set; leave it out"),
        ("+parameters.window=8", "unknown key parameters.window"),
        ("optimizer.lr=0", "optimizer.lr = 0 changes no weight; use a number above 0"),
        ("optimizer/schedule=cosine policy.schedule.final=2", "policy.schedule.final must be in [0, 1], a share"),
        (
            "rollout.engine.dtype=bf16",
            "rollout: rollout.engine.dtype must be auto, bfloat16, float16 or float32; got bf16",
        ),
        ("rollout.engine.kv_cache_gib=0", "rollout: rollout.engine.kv_cache_gib must be positive; got 0"),
        ("rollout=ray rollout.host.num_engines=0", "rollout.host: rollout.host.num_engines must be at least 1; got 0"),
        ("rollout=ray +rollout.host.num_engine=3", "unknown key rollout.host.num_engine; did you mean num_engines?"),
        ("rollout=vllm_process rollout.host.call_timeout_s=-1", "rollout.host: rollout.host.call_timeout_s must be"),
        ("callbacks.curves.every_n_steps=0", "callbacks.curves: every_n_steps must be at least 1; got 0"),
        ("callbacks.budget.max_generated_tokens=0", "callbacks.budget: callbacks.budget.max_generated_tokens must"),
        ("callbacks.response_log.max_prompts=0", "callbacks.response_log: max_prompts must be a whole number"),
        ("callbacks.sample_page.max_prompts=0", "callbacks.sample_page: max_prompts must be at least 1"),
        ("callbacks.sampling_plots.every_n_steps=0", "callbacks.sampling_plots: every_n_steps must be at least 1"),
        (
            "+experiment=pilot_commit advantage=official +selection.selection.group_size=4 "
            "selection.selection._target_=ada_lightning.methods.selection.BanditSelection",
            "selection: selection.selection: BanditSelection compares the pools of a step",
        ),
        ("trainer.accelerator=gpuu", "trainer.accelerator = gpuu is not a kind of device; use one of auto, cpu, cuda"),
        ("++trainer.log_every_n_steps=5", "trainer.log_every_n_steps has no effect: every update is logged"),
        ("loss=clipped loss.dual_clip=0.5", "loss: loss.dual_clip must be above 1 (inf sets no bound); got 0.5"),
        ("loss=divergence_tv +loss.importance_cap=2.0", "unknown key loss.importance_cap"),
        ("loss=cispo loss/importance=sequence_rejection loss.importance_cap=0.9", "loss: loss.importance_cap = 0.9"),
        ("+experiment=gvm_grpo sampler.alpha=0", "sampler: alpha must be positive and finite; got 0"),
        ("+experiment=gvm_grpo sampler.gradient_norm.chunk_size=0", "gradient_norm.chunk_size must be at least 1"),
        ("+experiment=gvm_grpo +sampler.gradient_norm.chunk=8", "unknown key sampler.gradient_norm.chunk"),
        ("+experiment=mopps curriculum.usefulness.target=2", "target must be in [0, 1]; got 2"),
        ("curriculum=difficulty_band curriculum.low=0.8 curriculum.high=0.2",
         "curriculum: curriculum.low and curriculum.high must be 0 <= low < high <= 1; got 0.8 and 0.2"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_work_is_refused_once(command, message):
    (found,) = problems(*command.split())
    assert message in found


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("data.prompts_per_step=0", ["data: data.prompts_per_step must be at least 1; got 0"]),
        ("data.prompts_per_step=-1 rollout.max_staleness=-1",
         ["rollout: rollout.max_staleness must be at least 0; got -1",
          "data: data.prompts_per_step must be at least 1; got -1"]),
        ("sampler=spread advantage=weighted_leave_one_out selection=all sampler.group_size=0 sampler.n_max=-1",
         ["sampler: n_max must be at least 1; got -1; group_size must be at least 1; got 0; group_size = 0 exceeds "
          "n_max = -1: no pool could fill a group; raise n_max"]),
    ],
)  # fmt: skip
def test_a_number_below_the_least_is_told_without_advice_that_needs_another(command, told):
    assert problems(*command.split()) == told


def test_a_sampler_without_a_rule_of_counts_has_no_cost_to_compute():
    overrides = ["curriculum=posterior", "sampler=spread", "advantage=weighted_leave_one_out"]
    (problem,) = problems(*overrides)
    assert ": SignalPerResponse needs a sampler that stops by the counts" in problem
    assert problem.endswith("Use curriculum=learnability")
    check_config(composed(*overrides[1:], "curriculum=learnability"))


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(ray_pool, "find_spec", lambda name: None)
    assert any("pip install 'ada-lightning[ray]'" in problem for problem in problems("rollout=ray"))


def test_masks_combine_and_none_is_none():
    both = composed("token_masks=[capo,jackpot]", "token_masks.jackpot.cap=3", "seed=7").token_masks
    assert [mask.name for mask in instantiate(both).values()] == ["capo", "jackpot"]
    assert (both.jackpot.cap, both.jackpot.seed) == (3, 7)
    assert composed("+experiment=capo", "token_masks=none").token_masks == {}
    misspelt = problems("token_masks=capo", "+token_masks.capo.max_shfit=1")
    assert misspelt[0] == "unknown key token_masks.capo.max_shfit; did you mean max_shift?"


def test_the_check_leaves_nothing_in_the_run_folder(tmp_path):
    check_config(composed(f"run_dir={tmp_path / 'run'}", f"logger.mlflow.tracking_uri=sqlite:///{tmp_path}/mlflow.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_callback_of_another_package_is_not_made_by_the_check():
    check_config(composed(f"+callbacks.mine._target_={__name__}.Connecting"))


def test_the_other_programs_refuse_an_engine_and_a_logger_that_cannot_work():
    wrong = ["rollout.engine.dtype=bf16", "model=tiny", "rollout.max_model_tokens=9000"]
    with pytest.raises(ConfigError, match="got bf16") as error:
        check_prepare_config(composed(*wrong, program="prepare"))
    assert [line.split(" ")[0] for line in error.value.problems] == ["rollout:", "rollout.max_model_tokens"]
    with pytest.raises(ConfigError, match="9000 is more than the model can attend to, 8192 tokens") as error:
        check_evaluation(composed(*wrong, "+mlflow.outbox=0", "label=x", program="evaluate"))
    assert [line.split(" ")[0] for line in error.value.problems] == ["unknown", "rollout:", "rollout.max_model_tokens"]


def test_an_engine_names_all_of_its_wrong_arguments_without_vllm(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    wrong = {"kv_cache_gib": -1, "block_size": 0, "dtype": "int8", "sleep_level": 3}
    with pytest.raises(ValueError, match="got -1") as error:
        VllmEngine.check_arguments(**wrong)
    for name in wrong:
        assert f"rollout.engine.{name} must be" in str(error.value)
    with pytest.raises(ValueError, match="vllm is not installed here; use rollout=transformers"):
        VllmEngine.check_arguments(kv_cache_gib=1, enforce_eager=True)
    monkeypatch.undo()
    VllmEngine.check_arguments(kv_cache_gib=1, enforce_eager=True)
