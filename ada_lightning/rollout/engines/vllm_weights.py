"""How weights reach a vLLM engine that runs: whole, or as adapters on the initial ones.

Whole weights go to the engine in its own process, or in one for each of its workers; adapters go as peft's files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ada_lightning.rollout.engines.published_weights import chunks

if TYPE_CHECKING:
    from torch import Tensor


def write_adapter(folder: Path, named_tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write adapters into an empty folder.

    Args:
        folder: where to.
        named_tensors: A and B of every adapted layer under peft's names; their product is what is added to the layer's
            weight, so the scale is in them.
    """
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in named_tensors}
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    rank = next(tensor.shape[0] for name, tensor in tensors.items() if name.endswith("lora_A.weight"))
    layers = sorted({name.rsplit(".", 3)[1] for name in tensors})
    described = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": layers, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(described), encoding="utf-8")


class LoadedAdapters:
    """Adapters by policy version, each under a name of its own: cached prefixes go by it, too.

    Args:
        engine: ``LLMEngine`` of vLLM, with room for as many as are held at once: it would drop one without a word.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._requests: dict[int, Any] = {}
        self._latest: int | None = None
        self._num_loaded = 0

    @property
    def versions(self) -> Collection[int]:
        """Policy versions that are held."""
        return self._requests.keys()

    def put(self, named_tensors: Iterable[tuple[str, Tensor]], policy_version: int) -> None:
        """Hold a version together with the others.

        Raises:
            ValueError: it is held already.
            RuntimeError: vLLM does not have the adapters that it was given.
        """
        from vllm.lora.request import LoRARequest

        if policy_version in self._requests:  # under which requests may be in flight
            raise ValueError(f"the engine has policy version {policy_version} already")
        self._num_loaded += 1
        with TemporaryDirectory(prefix="adapter-") as folder:  # read once: later requests find it by its number
            write_adapter(Path(folder), named_tensors)
            request = LoRARequest(f"policy-{self._num_loaded}", self._num_loaded, folder)
            self._engine.add_lora(request)
        self._requests[policy_version], self._latest = request, policy_version
        numbers = {request.lora_int_id for request in self._requests.values()}
        if self._engine.list_loras() != numbers:
            raise RuntimeError(f"vLLM has adapters {self._engine.list_loras()} instead of {numbers}")

    def keep(self, policy_versions: Collection[int]) -> None:
        """Remove all other versions, of which nothing is in flight."""
        for version in self._requests.keys() - policy_versions:
            self._engine.remove_lora(self._requests.pop(version).lora_int_id)

    def request(self, policy_version: int | None) -> Any:
        """Return what a request names its version by: of the last one that came unless given; None where none came.

        Raises:
            ValueError: the version is not there.
        """
        if policy_version is None and self._latest is None:
            return None
        policy_version = self._latest if policy_version is None else policy_version
        if policy_version not in self._requests:
            raise ValueError(f"the engine has policy versions {sorted(self._requests)}, not {policy_version}")
        return self._requests[policy_version]


_CHUNK_BYTES = 256 * 2**20


def reload_weights(engine: Any, named_tensors: Iterable[tuple[str, Tensor]], num_workers: int) -> None:
    """Replace all weights.

    Args:
        engine: ``LLMEngine`` of vLLM, with nothing in flight.
        named_tensors: the whole model under the names of its Hugging Face checkpoint; each is read once.
        num_workers: processes that the engine is spread over; 1: it has only its own.
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
