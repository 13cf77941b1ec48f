"""Checks the settings of an engine against its place, the trainer, the model and this machine.

The engine itself would find most of it when it has started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ada_lightning.config.view import ConfigView
from ada_lightning.data.episode_tasks import CalculatorTasks, GuessTasks
from ada_lightning.data.formats import PlainFormat
from ada_lightning.parallel import hardware
from ada_lightning.rewards.overlong import OverlongReward
from ada_lightning.rollout.engines.host import TrainerProcess
from ada_lightning.rollout.engines.process_pool import ProcessPool
from ada_lightning.rollout.engines.ray_pool import RayPool
from ada_lightning.rollout.engines.transformers_engine import TransformersEngine
from ada_lightning.rollout.engines.weight_transfer import Adapter, CudaIpc, Nccl, Reload
from ada_lightning.run.machine import concrete_dtype
from ada_lightning.training.models.lora import LoraParameters

_TASKS = {"calculator": CalculatorTasks, "guess": GuessTasks}
"""Sources whose prompts go with an environment that comes along, by its name."""


def environment_errors(run: ConfigView) -> Iterator[str]:
    """Compare ``environment`` with the format of prompts and with what they ask for."""
    key = "environment" if run.kind("environment") is not object else "rollout.environment"
    if run.kind(key) is object:
        yield from _tasks_without_environment(run)
        return
    if run.is_a("data.format", PlainFormat):
        yield (
            f"{key} takes turns with the model, but data/format=plain does not mark turns. Use data/format=chat with "
            "an instruction-tuned model, or environment=none"
        )
    prompt, answer = run.number("data.max_prompt_tokens"), run.number("rollout.sampling.max_new_tokens")
    room = run.number("rollout.max_model_tokens")
    turns = run.number(f"{key}.max_turns")
    if prompt is None or answer is None or room is None or turns is None:  # reported by themselves
        return
    yield from _overlong_errors(run, key, turns, answer)
    if turns > 1 and room == prompt + answer:
        yield (
            f"rollout.max_model_tokens = {room} has room for the longest prompt and one turn "
            f"(data.max_prompt_tokens + rollout.sampling.max_new_tokens = {prompt + answer}), and {key}.max_turns = "
            f"{turns}: there is no room for further turns. Use rollout.max_model_tokens={prompt + 2 * turns * answer}, "
            "or lower data.max_prompt_tokens"
        )


def _overlong_errors(run: ConfigView, key: str, turns: float, answer: float) -> Iterator[str]:
    """A penalty by the tokens of a response counts those of all turns."""
    if turns > 1 and run.is_a("reward.reward", OverlongReward) and run.number("reward.reward.max_tokens") == answer:
        yield (
            f"reward.reward.max_tokens = {answer} is the length of one turn, but OverlongReward counts the tokens of "
            f"all {turns} turns of an episode ({key}.max_turns). Use reward.reward.max_tokens={turns * answer} or "
            "another reward"
        )


def _tasks_without_environment(run: ConfigView) -> Iterator[str]:
    for name, tasks in _TASKS.items():
        if run.is_a("data.source", tasks):
            yield (
                f"data={name} needs an environment that answers the model, but environment=none. Use "
                f"environment={name} or +experiment=environments/{name}"
            )


_ROPE_WITHOUT_FACTOR = ("default", "llama3", "longrope", "su", "yarn")
"""Kinds of position encoding whose ``max_position_embeddings`` is the longest sequence as it stands."""
_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def rollout_errors(run: ConfigView) -> Iterator[str]:
    """Compare ``rollout.engine``, ``rollout.host``, ``rollout.reproducible`` and ``trainer``, which may be missing."""
    yield from _transfer_errors(run)
    is_elsewhere = run.kind("rollout.host") is not object and not run.is_a("rollout.host", TrainerProcess)
    if run.value("rollout.reproducible") is True and is_elsewhere:  # decodes by itself, between two polls too
        yield (
            f"reproducible=true does not go with rollout.host = {run.name('rollout.host')}. An engine in another "
            "process forms its batches by its own clock, so they and their rounding differ from run to run. Use "
            "reproducible=false, or one training process with rollout=vllm_cpu, vllm_gpu or transformers"
        )
    level = run.number("rollout.engine.sleep_level")
    if level and run.is_cpu:
        yield (
            f"rollout.engine.sleep_level = {level}: vLLM sleeps only on a GPU, but trainer.accelerator = cpu. "
            "Use rollout.engine.sleep_level=0"
        )
    engines = run.number("rollout.host.num_engines")
    if run.kind("rollout.host") is ProcessPool and engines is not None and engines > 1 and run.is_gpu:
        yield (
            f"rollout.host.num_engines = {engines}: engines in processes of this machine would share one GPU. Use "
            "rollout=ray_gpu, which gives each its own, or rollout.host.num_engines=1"
        )
    spread, gpus = run.number("rollout.engine.tensor_parallel_size"), run.number("rollout.host.num_gpus")
    if run.kind("rollout.host") is RayPool and not run.is_cpu and spread and gpus is not None and gpus < spread > 1:
        yield (
            f"rollout.host.num_gpus = {gpus} is less than rollout.engine.tensor_parallel_size = {spread}: an engine "
            f"needs a GPU for each part. Use rollout.host.num_gpus={spread}"
        )


def _transfer_errors(run: ConfigView) -> Iterator[str]:
    transfer, host = run.kind("rollout.engine.weight_transfer"), run.kind("rollout.host")
    if transfer is Adapter and not run.is_a("parameters", LoraParameters):
        yield (
            f"rollout.engine.weight_transfer: Adapter sends only adapters, but parameters: {run.name('parameters')} "
            "trains every weight. Use parameters=lora or rollout/weight_transfer=reload"
        )
    if transfer is object or issubclass(transfer, Reload):
        return
    own, way_out = f"rollout.engine.weight_transfer: {transfer.__name__}", "use rollout/weight_transfer=reload"
    if run.is_cpu:
        yield f"{own} goes from GPU to GPU, but trainer.accelerator = cpu; {way_out}"
    if host in (object, TrainerProcess):
        yield (
            f"{own} goes to another process, but the engine runs in the trainer's; {way_out}, which copies nothing "
            "there, or rollout=vllm_gpu_process"
        )
    elif host is RayPool:
        yield (
            f"{own} cannot reach an engine that replaces a broken one; {way_out} with rollout.host = RayPool: "
            "weights stay in Ray's object store"
        )
    devices, spread = run.number("trainer.devices"), run.number("rollout.engine.tensor_parallel_size")
    own_gpus = "rollout.host.environment.CUDA_VISIBLE_DEVICES"
    if transfer is CudaIpc and devices is not None and devices > 1:
        yield (
            f"{own} shares one GPU with one training process, but trainer.devices = {devices}; use "
            "rollout/weight_transfer=nccl"
        )
    if transfer is CudaIpc and spread and spread > 1:
        yield (
            f"{own} shares one GPU with the engine, but rollout.engine.tensor_parallel_size = {spread}; use "
            "rollout/weight_transfer=nccl"
        )
    if transfer is CudaIpc and run.value(own_gpus) is not None:
        yield (
            f"{own} shares one GPU with the engine, but {own_gpus} = {run.value(own_gpus)} gives the engine its own; "
            "leave that out, or use rollout/weight_transfer=nccl"
        )
    if transfer is Nccl and host is not RayPool and run.value(own_gpus) is None:
        yield (
            f"{own} goes from GPU to GPU, but the engine would be on the trainer's GPU; give it others with "
            f"+{own_gpus}=1, of several '+{own_gpus}=\"2,3\"'"
        )


def model_errors(run: ConfigView) -> Iterator[str]:
    """Compare ``rollout`` with the ``config.json`` of ``model``, and with this machine; ``trainer`` may be missing."""
    yield from _machine_errors(run)
    try:
        description = dict(getattr(run.part("model"), "description", dict)())
    except (ValueError, OSError):  # reported by the check of the model
        return
    if description:
        yield from _length_errors(run, description)
        yield from _shape_errors(run, description)


def _length_errors(run: ConfigView, description: Mapping[str, Any]) -> Iterator[str]:
    key, longest = "rollout.max_model_tokens", description.get("max_position_embeddings")
    rope = description.get("rope_parameters") or description.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    tokens = run.number(key)
    if isinstance(longest, int) and tokens is not None and kind in _ROPE_WITHOUT_FACTOR and tokens > longest:
        yield (
            f"{key} = {tokens} is more than the model can attend to, {longest} tokens (max_position_embeddings in its "
            f"config.json); use {key}={longest} or less, with shorter prompts and responses, or another model"
        )


def _shape_errors(run: ConfigView, description: Mapping[str, Any]) -> Iterator[str]:
    heads, spread = description.get("num_attention_heads"), run.number("rollout.engine.tensor_parallel_size")
    if isinstance(heads, int) and isinstance(spread, int) and spread > 0 and heads % spread:
        yield (
            f"rollout.engine.tensor_parallel_size = {spread} does not divide the model's {heads} attention heads; use "
            "rollout.engine.tensor_parallel_size=1 or a number that does"
        )
    cache, tokens = run.number("rollout.engine.kv_cache_gib"), run.number("rollout.max_model_tokens")
    per_token = _gib_per_token(description, concrete_dtype(str(run.value("rollout.engine.dtype"))))
    needed = per_token * (tokens or 0) / max(spread or 1, 1)
    if cache is not None and 0 < cache < needed:
        yield (
            f"rollout.engine.kv_cache_gib = {cache} cannot hold one sequence of rollout.max_model_tokens = {tokens}, "
            f"which takes {needed:.3g} GiB; raise the one, to many times that for many sequences at once, or lower the "
            "other"
        )
    sequences, memory = run.number("rollout.engine.max_num_seqs"), _memory_gib()
    taken = per_token * (tokens or 0) * (sequences or 0)
    is_on_cpu = run.value("rollout.engine.device") == "cpu" or not hardware.count_gpus()
    is_here = run.kind("rollout.host") is not RayPool
    if run.is_a("rollout.engine", TransformersEngine) and taken > memory and is_on_cpu and is_here:
        yield (
            f"rollout.engine.max_num_seqs = {sequences}: rollout=transformers takes memory for as many sequences of "
            f"rollout.max_model_tokens = {tokens} at its start, {taken:.3g} GiB, and this machine has {memory:.1f}; "
            f"use rollout.engine.max_num_seqs={max(1, int(memory / 2 / (per_token * (tokens or 1))))} or fewer"
        )


def _memory_gib() -> float:
    """Memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _gib_per_token(description: Mapping[str, Any], dtype: str) -> float:
    """KV cache of one token; 0 where not every layer keeps every token, or the shape is not known."""
    layers, heads = description.get("num_hidden_layers"), description.get("num_attention_heads")
    groups, width = description.get("num_key_value_heads", heads), description.get("hidden_size")
    if description.get("model_type") not in ("llama", "qwen2", "qwen3", "mistral") or description.get("sliding_window"):
        return 0.0
    if not (isinstance(layers, int) and isinstance(heads, int) and isinstance(groups, int) and isinstance(width, int)):
        return 0.0
    head = description.get("head_dim") or width // heads
    return 2 * layers * groups * head * _BYTES.get(dtype, 0) / 2**30


def _machine_errors(run: ConfigView) -> Iterator[str]:
    """An engine on this machine: a trainer on a GPU has a check of its own, and Ray's engines are elsewhere."""
    if run.kind("rollout.host") is RayPool:
        return
    memory = _memory_gib()
    is_gpu = not run.is_cpu and run.value("trainer.accelerator") is not None
    if run.kind("rollout.engine") is not object and not is_gpu and not hardware.count_gpus():
        if run.value("rollout.engine.enforce_eager") is False:
            yield (
                "rollout.engine.enforce_eager = false, as in rollout=vllm_gpu: the engine would capture CUDA graphs, "
                "and torch sees no GPU on this machine; use rollout=vllm_cpu or rollout=vllm_process"
            )
        cache = run.number("rollout.engine.kv_cache_gib")
        if cache is not None and cache > memory:
            yield (
                f"rollout.engine.kv_cache_gib = {cache} is more than the memory of this machine, {memory:.1f} GiB; use "
                "rollout.engine.kv_cache_gib=0.5, which is enough for a small model"
            )
    sequences, tokens = run.number("rollout.engine.max_num_seqs"), run.number("rollout.max_model_tokens")
    # vLLM keeps a table of every token of as many sequences as it may decode at once, four bytes each.
    if (needed := (sequences or 0) * (tokens or 0) * 4 / 2**30) > memory:
        yield (
            f"rollout.engine.max_num_seqs = {sequences}: the engine's table of sequences of up to "
            f"rollout.max_model_tokens = {tokens} tokens would take {needed:.0f} GiB, more than the memory of this "
            f"machine, {memory:.1f} GiB; use rollout.engine.max_num_seqs=256 or fewer"
        )
