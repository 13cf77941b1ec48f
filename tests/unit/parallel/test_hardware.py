from __future__ import annotations

import pytest
import torch
from hydra import compose, initialize_config_dir

from ada_lightning.config.check import ConfigError, check_config
from ada_lightning.config.parallel import check_sweep, parallel_errors
from ada_lightning.config.view import ConfigView
from ada_lightning.parallel.environment import Launch
from ada_lightning.parallel.hardware import check_devices, choose_hardware
from ada_lightning.run.machine import concrete_dtype, has_fast_bfloat16
from tests.integration.conftest import ROOT

BY_ITSELF, TWO = Launch("", 1, 1), Launch("torchrun", 2, 1)
SHARDED = "ShardedStrategy"
APART = "rollout=vllm_process"


def composed(*overrides):
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose("train", ["+experiment=ada_seq_balance", "run_name=x", *overrides])


@pytest.mark.parametrize(
    ("trainer", "num_gpus", "launched", "expected", "line"),
    [
        ("auto", 0, BY_ITSELF, ("cpu", 1, 1, "auto"), "one process on cpu, no strategy"),
        ("auto", 1, BY_ITSELF, ("cuda", 1, 1, "auto"), "one process on cuda, no strategy"),
        ("auto", 8, BY_ITSELF, ("cuda", 8, 1, SHARDED), "8 processes, here on cuda, ShardedStrategy"),
        (
            "auto", 8, Launch("srun", 8, 4), ("cuda", 8, 4, SHARDED),
            "32 processes, 8 on each of 4 machines on cuda, ShardedStrategy, started by srun",
        ),
        (
            "fsdp", 0, TWO, ("cpu", 2, 1, SHARDED),
            "2 processes, here on cpu, ShardedStrategy, started by torchrun",
        ),
        ("ddp", 4, BY_ITSELF, ("cuda", 4, 1, "ReplicatedStrategy"), "4 processes, here on cuda, ReplicatedStrategy"),
        ("cpu", 8, BY_ITSELF, ("cpu", 1, 1, None), ""),
    ],
)  # fmt: skip
def test_auto_is_what_the_machine_and_the_launcher_have(trainer, num_gpus, launched, expected, line):
    cfg = composed(f"trainer={trainer}")
    assert choose_hardware(cfg.trainer, num_gpus=num_gpus, launched=launched) == (line and f"trainer: {line}")
    strategy = cfg.trainer.get("strategy")
    kind = strategy if strategy in (None, "auto") else strategy._target_.rpartition(".")[2]
    assert (cfg.trainer.accelerator, cfg.trainer.devices, cfg.trainer.num_nodes, kind) == expected


def errors(*overrides, launched=BY_ITSELF):
    cfg = composed(*overrides)
    choose_hardware(cfg.trainer, num_gpus=0, launched=launched)
    return list(parallel_errors(ConfigView(cfg), launched))


@pytest.mark.parametrize(
    ("overrides", "launched", "message"),
    [
        (["trainer.devices=2", APART], BY_ITSELF, "several processes train with trainer=fsdp"),
        (["trainer.devices=0"], BY_ITSELF, "trainer.devices = 0 must be a number of at least 1; use trainer.devices=1"),
        (["trainer.num_nodes=many"], BY_ITSELF, "trainer.num_nodes = many must be a number"),
        ([], TWO, "torchrun started 2 processes, but trainer.devices x trainer.num_nodes = 1"),
        (["trainer=fsdp"], TWO, "the engine would take over torch's process group, which trainer.strategy = Sharded"),
        (["trainer=ddp", "trainer.devices=1"], BY_ITSELF, "which trainer.strategy = ReplicatedStrategy needs for its"),
        (
            ["trainer=fsdp", APART, "trainer.strategy.tensor_parallel_size=4"], TWO,
            "data_parallel_size x tensor_parallel_size = auto x 4 does not make 2 processes",
        ),
        (["trainer=ddp", APART, "token_masks=capo"], TWO, "train in one process with it"),
        (["+trainer.strategy=ddp"], BY_ITSELF, "trainer.strategy: one process needs none"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_said_with_a_way_out(overrides, launched, message):
    (found,) = errors(*overrides, launched=launched)
    assert message in found


@pytest.mark.parametrize("parts", [["trainer=fsdp"], ["trainer=ddp", "token_masks=jackpot"], ["trainer=auto"]])
def test_two_processes_with_an_engine_of_its_own_are_in_order(parts):
    assert errors(*parts, APART, launched=TWO) == []


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("parameters=lora", "parameters = LoraParameters needs weights that are whole in every process"),
        ("loss=flowrl", "loss = FlowRlLoss needs weights that are whole"),
        ("sampler=gvm", "sampler.gradient_norm = LmHeadNorm needs weights that are whole"),
    ],
)
def test_parts_that_need_whole_weights_are_refused_with_shards_and_taken_with_copies(part, message):
    (found,) = errors("trainer=fsdp", APART, part, launched=TWO)
    assert message in found
    assert "use trainer=ddp" in found
    assert errors("trainer=ddp", APART, part, launched=TWO) == []


@pytest.mark.parametrize(
    ("trainer", "setting", "message"),
    [
        ("fsdp", "tensor_parallel_size", "tensor_parallel_size must be at least 1; got 0"),
        ("ddp", "timeout_minutes", "timeout_minutes must be positive; got 0"),
    ],
)
def test_a_strategy_checks_its_own_settings(trainer, setting, message):
    cfg = composed(f"trainer={trainer}", f"trainer.strategy.{setting}=0")
    choose_hardware(cfg.trainer, num_gpus=0, launched=BY_ITSELF)
    with pytest.raises(ConfigError, match=rf"trainer.strategy: {message}"):
        check_config(cfg)


@pytest.mark.parametrize(
    ("trainer", "num_gpus", "launched", "message"),
    [
        ("gpu", 0, BY_ITSELF, r"trainer.accelerator = cuda, trainer.devices = 1: torch sees none .* use trainer=auto"),
        ("ddp", 2, BY_ITSELF, r"trainer.devices = 4: torch sees 2 on this machine .* use trainer=auto"),
        ("auto", 2, Launch("torchrun", 4, 1), r"trainer.devices = 4: torch sees 2 .* let torchrun start fewer"),
        (
            "auto",
            1,
            Launch("srun", 4, 1),
            r"torch sees 1 .* or show every process all of them \(with Slurm: --gpus-per-n",
        ),
    ],
)
def test_gpus_that_are_not_here_are_refused(trainer, num_gpus, launched, message):
    node = composed(f"trainer={trainer}").trainer
    choose_hardware(node, num_gpus=4, launched=launched)
    with pytest.raises(ValueError, match=message):
        check_devices(node, num_gpus=num_gpus, launched=launched)
    check_devices(node, num_gpus=4, launched=launched)


def test_a_cpu_needs_no_gpus():
    check_devices(composed("trainer=cpu", "trainer.devices=4").trainer, num_gpus=0)


def test_a_run_asks_for_its_gpus_before_the_model_loads(monkeypatch):
    from ada_lightning.programs import train

    monkeypatch.setattr("ada_lightning.parallel.hardware.count_gpus", lambda: 0)
    with pytest.raises(ValueError, match="torch sees none on this machine"):
        train.check(composed("trainer=gpu", "rollout=vllm_gpu"), is_sweep=False)


def test_a_sweep_runs_in_one_process():
    check_sweep(composed())
    with pytest.raises(ValueError, match="start every run by itself"):
        check_sweep(composed("trainer.devices=2"))


def let_cpu(monkeypatch, *, kernels, architecture="x86_64", instructions=()):
    """Have torch answer as on another processor."""
    found = {"architecture": architecture, **dict.fromkeys(instructions, True)}
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: kernels)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)


@pytest.mark.parametrize(
    ("trainer", "num_gpus", "cpu_has_it", "precision"),
    [
        ("cpu", 0, True, "bf16-mixed"),
        ("cpu", 8, False, "32-true"),
        ("auto", 0, False, "32-true"),
        ("auto", 1, False, "bf16-mixed"),
        ("gpu", 1, False, "bf16-mixed"),
        ("fsdp", 2, False, "bf16-mixed"),
        ("fsdp", 0, False, "32-true"),
    ],
)
def test_the_precision_is_one_that_the_hardware_computes_fast_in(trainer, num_gpus, cpu_has_it, precision, monkeypatch):
    let_cpu(monkeypatch, kernels=cpu_has_it, instructions=["avx512_bf16"])
    node = composed(f"trainer={trainer}").trainer
    choose_hardware(node, num_gpus=num_gpus, launched=BY_ITSELF)
    assert node.precision == precision


def test_a_precision_that_is_given_stays(monkeypatch):
    let_cpu(monkeypatch, kernels=False)
    node = composed("trainer=cpu", "trainer.precision=bf16-mixed").trainer
    choose_hardware(node, num_gpus=0, launched=BY_ITSELF)
    assert node.precision == "bf16-mixed"


@pytest.mark.parametrize(
    ("kernels", "architecture", "instructions", "dtype"),
    [
        (False, "x86_64", [], "float32"),
        (True, "x86_64", ["avx512_f"], "float32"),  # up to Ice Lake: four times as slow as float32
        (True, "x86_64", ["avx512_f", "avx512_bf16"], "bfloat16"),
        (True, "x86_64", ["amx_bf16"], "bfloat16"),
        (True, "x86_64", ["avx_ne_convert"], "bfloat16"),
        (True, "aarch64", [], "bfloat16"),
    ],
)
def test_an_engine_on_a_cpu_computes_in_what_is_fast_there(kernels, architecture, instructions, dtype, monkeypatch):
    let_cpu(monkeypatch, kernels=kernels, architecture=architecture, instructions=instructions)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (concrete_dtype("auto"), concrete_dtype("bfloat16")) == (dtype, "bfloat16")


@pytest.mark.parametrize("has_it", [True, False])
def test_a_gpu_before_ampere_computes_in_float32(has_it, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_it)
    assert concrete_dtype("auto") == ("bfloat16" if has_it else "float32")


def test_torch_answers_whether_it_has_kernels_for_bfloat16():
    assert has_fast_bfloat16(on_gpu=False) in (True, False)
    assert has_fast_bfloat16(on_gpu=True)
