"""What of an engine's settings the model or this machine has no room for; vLLM finds it when it has started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from ada_lightning.config.problems import class_at, number_at, value_at
from ada_lightning.rollout.engines.ray_pool import RayPool

_ROPE_WITHOUT_FACTOR = ("default", "llama3", "longrope", "su", "yarn")
"""Kinds of position encoding whose ``max_position_embeddings`` is the longest sequence as it stands."""
_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}


def model_errors(cfg: DictConfig) -> Iterator[str]:
    """Compare ``rollout`` with the ``config.json`` of ``model``, and with this machine.

    Args:
        cfg: the composed configuration; ``trainer`` may be missing.

    Yields:
        One message per problem.
    """
    yield from _machine_errors(cfg)
    if description := _description(cfg):
        yield from _length_errors(cfg, description)
        yield from _shape_errors(cfg, description)


def _description(cfg: DictConfig) -> Mapping[str, Any]:
    """Return what is known of the model without its weights; nothing where it is out of order or does not tell."""
    node = value_at(cfg, "model")
    if not isinstance(node, DictConfig) or "_target_" not in node:
        return {}
    try:
        return dict(getattr(instantiate(node), "description", dict)())
    except (InstantiationException, OmegaConfBaseException, ValueError, OSError):  # reported by the check of the model
        return {}


def _length_errors(cfg: DictConfig, description: Mapping[str, Any]) -> Iterator[str]:
    key, longest = "rollout.max_model_tokens", description.get("max_position_embeddings")
    rope = description.get("rope_parameters") or description.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    tokens = number_at(cfg, key)
    if isinstance(longest, int) and tokens is not None and kind in _ROPE_WITHOUT_FACTOR and tokens > longest:
        yield (
            f"{key} = {tokens} is more than the model can attend to, {longest} tokens (max_position_embeddings in its "
            f"config.json); use {key}={longest} or less, with shorter prompts and responses, or another model"
        )


def _shape_errors(cfg: DictConfig, description: Mapping[str, Any]) -> Iterator[str]:
    heads, spread = description.get("num_attention_heads"), number_at(cfg, "rollout.engine.tensor_parallel_size")
    if isinstance(heads, int) and isinstance(spread, int) and spread > 0 and heads % spread:
        yield (
            f"rollout.engine.tensor_parallel_size = {spread} does not divide the model's {heads} attention heads; use "
            "rollout.engine.tensor_parallel_size=1 or a number that does"
        )
    cache, tokens = number_at(cfg, "rollout.engine.kv_cache_gib"), number_at(cfg, "rollout.max_model_tokens")
    per_token = _gib_per_token(description, str(value_at(cfg, "rollout.engine.dtype")))
    needed = per_token * (tokens or 0) / max(spread or 1, 1)
    if cache is not None and 0 < cache < needed:
        yield (
            f"rollout.engine.kv_cache_gib = {cache} cannot hold one sequence of rollout.max_model_tokens = {tokens}, "
            f"which takes {needed:.3g} GiB; raise the one, to many times that for many sequences at once, or lower the "
            "other"
        )


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


def _machine_errors(cfg: DictConfig) -> Iterator[str]:
    """An engine on this machine's CPU: a trainer on a GPU has a check of its own, and Ray's engines are elsewhere."""
    from ada_lightning.parallel.hardware import count_gpus

    is_here = value_at(cfg, "trainer.accelerator") in (None, "cpu") and class_at(cfg, "rollout.host") is not RayPool
    if not is_here or class_at(cfg, "rollout.engine") is object or count_gpus():
        return
    if value_at(cfg, "rollout.engine.enforce_eager") is False:
        yield (
            "rollout.engine.enforce_eager = false, as in rollout=vllm_gpu: the engine would capture CUDA graphs, and "
            "torch sees no GPU on this machine; use rollout=vllm_cpu or rollout=vllm_process"
        )
    cache, memory = number_at(cfg, "rollout.engine.kv_cache_gib"), _memory_gib()
    if cache is not None and cache > memory:
        yield (
            f"rollout.engine.kv_cache_gib = {cache} is more than the memory of this machine, {memory:.1f} GiB; use "
            "rollout.engine.kv_cache_gib=0.5, which is enough for a small model"
        )


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
