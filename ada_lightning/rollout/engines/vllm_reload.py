"""Whole weights for a vLLM engine that runs: in its own process, or in one for each of its workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ada_lightning.rollout.engines.published_weights import chunks

if TYPE_CHECKING:
    from torch import Tensor

_CHUNK_BYTES = 256 * 2**20


def reload_weights(engine: Any, named_tensors: Iterable[tuple[str, Tensor]], num_workers: int) -> None:
    """Replace all weights.

    Args:
        engine: ``LLMEngine`` of vLLM, with nothing in flight.
        named_tensors: the whole model under the names of its Hugging Face checkpoint; each is read once.
        num_workers: processes that the engine is spread over; 1: it has none beside its own.
    """
    dtype = engine.model_config.dtype  # vLLM would cast too, with a warning for every tensor
    cast = ((name, tensor.to(dtype)) for name, tensor in named_tensors)
    if num_workers > 1:  # an iterator does not travel to other processes
        engine.collective_rpc(_begin_reload)
        for chunk in chunks(cast, _CHUNK_BYTES):
            engine.collective_rpc(_reload_chunk, args=([(name, tensor.cpu()) for name, tensor in chunk],))
        engine.collective_rpc(_finish_reload)
    else:
        # model.load_weights would fail: on CPU the weights were repacked after loading.
        engine.collective_rpc("reload_weights", kwargs={"weights_iterator": cast})


def _begin_reload(worker: Any) -> None:
    """Have a worker expect the whole checkpoint in parts (runs in the vLLM worker)."""
    from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

    initialize_layerwise_reload(worker.get_model())


def _reload_chunk(worker: Any, named_tensors: list[tuple[str, Tensor]]) -> None:
    from vllm.config import set_current_vllm_config

    with set_current_vllm_config(worker.vllm_config):
        worker.get_model().load_weights(named_tensors)


def _finish_reload(worker: Any) -> None:
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

    with set_current_vllm_config(worker.vllm_config):
        finalize_layerwise_reload(worker.get_model(), worker.model_config)


def repack_tied_head(worker: Any) -> None:
    """Give an output head that is tied to the input embedding the new weights (runs in the vLLM worker).

    On CPU vLLM 0.32 keeps a repacked copy of the head. Reloading skips tied heads ("ParallelLMHead: Failed to load
    weights"), so every logit would go on coming from the first weights ever loaded: logprobs off by nats, no error.
    """
    from vllm.platforms import current_platform

    model = worker.get_model()
    if not current_platform.is_cpu() or not model.config.tie_word_embeddings:
        return
    model.lm_head.tie_weights(model.model.embed_tokens)
    model.lm_head.quant_method.process_weights_after_loading(model.lm_head)
