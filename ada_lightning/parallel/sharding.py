"""Loads a causal language model in shards (FSDP2), optionally with layers cut across processes (tensor parallel).

Layers of Llama-like models are cut: Llama, Mistral, Qwen2, Qwen3.

Attention heads and the inner width of the MLP are divided; embeddings, norms and the output embedding are whole on
every process. The plan is Megatron's (arXiv:1909.08053, section 3): into a block by columns, out of it by rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import MethodType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module
from torch.utils._pytree import tree_map

from ada_lightning.parallel.gradients import local


class CheckpointReader:
    """Reads single tensors from ``model.safetensors`` of a folder, or the files of its index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        index = folder / "model.safetensors.index.json"
        if index.exists():
            self._file_of: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        else:
            with safe_open(folder / "model.safetensors", framework="pt") as file:
                self._file_of = dict.fromkeys(file.keys(), "model.safetensors")

    def has(self, names: Collection[str]) -> bool:
        """Whether every one of these is in the checkpoint under this very name."""
        return all(name in self._file_of for name in names)

    def read(self, name: str) -> Tensor:
        """Return a tensor in float32, on the CPU."""
        with safe_open(self._folder / self._file_of[name], framework="pt") as file:
            tensor: Tensor = file.get_tensor(name)
        return tensor.to(torch.float32)


_INTO = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
_OUT_OF = ("self_attn.o_proj", "mlp.down_proj")
_PER_HEAD = ("self_attn.q_norm", "self_attn.k_norm")
"""Modules whose weights are whole, but which see only this process's heads."""
_KNOWN = frozenset({"llama", "mistral", "qwen2", "qwen3"})
_WAY_OUT = "use trainer.strategy.tensor_parallel_size=1 (sharding alone divides the memory, too)"


def layer_plan() -> dict[str, ParallelStyle]:
    """Return how each projection of a layer is divided."""
    plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in _INTO}
    return plan | {name: RowwiseParallel() for name in _OUT_OF}


def partial_gradients(model: Any) -> Iterator[nn.Parameter]:
    """Yield the parameters whose gradient is, on each process, that of its own heads only."""
    for name, parameter in model.named_parameters():
        if any(f".{part}." in name for part in _PER_HEAD):
            yield parameter


def check_divisible(model: Any, layer: nn.Module, num_parts: int) -> None:
    """Check that the layers are such as the plan knows and can be cut evenly.

    Raises:
        ValueError: they are not.
    """
    config = model.config
    present = {name for name, _ in layer.named_modules()}
    missing = [name for name in (*_INTO, *_OUT_OF) if name not in present]
    if config.model_type not in _KNOWN or missing:
        raise ValueError(
            f"trainer.strategy.tensor_parallel_size = {num_parts} works for {', '.join(sorted(_KNOWN))}; this model is "
            f"{config.model_type}; {_WAY_OUT}"
        )
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        if getattr(config, name) % num_parts:
            raise ValueError(
                f"trainer.strategy.tensor_parallel_size = {num_parts} does not divide the model's {name} = "
                f"{getattr(config, name)}; {_WAY_OUT}"
            )


T = TypeVar("T")
DATA, TENSOR = "data_parallel", "tensor_parallel"
"""Dimensions of the mesh of processes, named as Lightning names them."""


class Sharding:
    """How a model is spread over processes.

    Every transformer layer is a unit of its own; embeddings, final norm and output embedding are the root unit, so that
    tied embeddings stand in one.

    Args:
        mesh: processes, of the dimensions data_parallel x tensor_parallel.
        low_precision: compute in bfloat16; weights, gradients' sums and optimiser state are float32 in either case.
    """

    def __init__(self, mesh: DeviceMesh, *, low_precision: bool) -> None:
        self.mesh = mesh
        self._policy = (
            MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            if low_precision
            else MixedPrecisionPolicy()
        )

    def load(self, path: Path, *, attention: str, prepare: Callable[[Any], None]) -> Any:
        """Load a checkpoint: every process reads one layer at a time and keeps its part.

        Args:
            path: Hugging Face folder.
            attention: name of the attention function in transformers.
            prepare: called with the model before it is sharded, its weights perhaps not there yet.

        Raises:
            ValueError: this architecture cannot be sharded, or not cut into so many parts.
        """
        model = empty_model(path, attention)
        self._check(model)
        reader = CheckpointReader(path)
        names = [name for name, _ in model.named_parameters()]
        if not reader.has(names):  # a checkpoint with names of its own, which transformers translates
            model = whole_model(path, attention)
        prepare(model)
        self._shard(model, reader)
        for name, buffer in model.named_buffers():
            if reader.has([name]):
                buffer.copy_(reader.read(name))
        return model

    def finish_gradients(self, model: Any) -> None:
        """Complete the gradients after the last backward pass: parts that tensor parallelism left apart are summed."""
        if self.mesh[TENSOR].size() > 1:
            for parameter in partial_gradients(model):
                if parameter.grad is not None:
                    dist.all_reduce(local(parameter.grad), group=self.mesh.get_group(TENSOR))

    def forget_gradients(self, model: Any) -> None:
        """Begin anew after a backward pass that raised: FSDP is left in an undefined state by one.

        ``reset_iter_state`` (torch 2.13) makes the root unit reduce its gradients again, but leaves those that units
        have of their whole weights. They are reached where those are in place, for memory one unit after the other.
        """
        model.reset_iter_state()
        units: list[Any] = [module for module in model.modules() if isinstance(module, FSDPModule)]
        for unit in units:
            unit.unshard()
            unit.zero_grad(set_to_none=True)
            unit.reshard()

    def parameter_groups(self, model: Any) -> list[dict[str, Any]]:
        """Parameters by the mesh they are spread over: an optimiser's fused step takes one mesh at a time."""
        groups: dict[Any, list[nn.Parameter]] = {}
        for parameter in model.parameters():
            mesh = parameter.device_mesh if isinstance(parameter, DTensor) else None
            groups.setdefault(mesh, []).append(parameter)
        return [{"params": parameters} for parameters in groups.values()]

    def _check(self, model: Any) -> None:
        if not layers_of(model):
            raise ValueError(
                f"{type(model).__name__} does not name its layers, so it cannot be sharded; use trainer=ddp or one "
                "process"
            )
        if (num_parts := self.mesh[TENSOR].size()) > 1:
            check_divisible(model, layers_of(model)[0][1], num_parts)

    def _shard(self, model: Any, reader: CheckpointReader) -> None:
        """Fill and shard unit by unit, so that no more than one is ever whole."""
        for name, layer in layers_of(model):
            _fill(layer, f"{name}.", reader)
            if self.mesh[TENSOR].size() > 1:
                parallelize_module(layer, self.mesh[TENSOR], layer_plan(), src_data_rank=None)
            fully_shard(layer, mesh=self.mesh[DATA], mp_policy=self._policy)
        _fill(model, "", reader)
        model.tie_weights()
        # The root's weights stay whole until the backward pass has used them.
        fully_shard(model, mesh=self.mesh[DATA], mp_policy=self._policy, reshard_after_forward=False)
        for module in model.modules():
            if isinstance(module, FSDPModule):  # sums, not means: losses are divided by global counts already
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
        model.run_inside = MethodType(_run_inside, model)
        register_fsdp_forward_method(model, "run_inside")


def run_inside(model: Any, function: Callable[[], T]) -> T:
    """Call a function that uses a model's parts, with the weights that belong to no layer whole during it.

    A forward pass of ours calls the model's inner parts, not the model, so it must say where it begins and ends. The
    model may be whole; the function returns tensors.
    """
    if not isinstance(model, FSDPModule):
        return function()
    result: T = model.run_inside(function)  # type: ignore[attr-defined]
    if not torch.is_grad_enabled():
        model.reshard()  # no backward pass will: and the next forward pass must not find the weights of this one
    return result


def layers_of(model: Any) -> list[tuple[str, nn.Module]]:
    """Name and module of every transformer layer."""
    kinds = set(model._no_split_modules or ())
    return [(name, module) for name, module in model.named_modules() if type(module).__name__ in kinds]


def empty_model(path: Path, attention: str) -> Any:
    """Make a model whose parameters have shapes only (meta device); its buffers are real."""
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    config = AutoConfig.from_pretrained(path, trust_remote_code=False)
    with init_empty_weights(include_buffers=False):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
    model.tie_weights()
    if (path / "generation_config.json").exists():
        model.generation_config = GenerationConfig.from_pretrained(path)
    return model


def whole_model(path: Path, attention: str) -> Any:
    """Load a causal language model in float32, whole; ``attention`` names transformers' function."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation=attention, trust_remote_code=False, use_safetensors=True
    )


def _run_inside(self: Any, function: Callable[[], T]) -> T:
    # Views are copied: an in-place change of one would silently lose the backward pass of the root unit.
    return tree_map(lambda x: x.clone() if isinstance(x, Tensor) and x._is_view() else x, function())


def _fill(module: nn.Module, prefix: str, reader: CheckpointReader) -> None:
    """Give every parameter that has only a shape its values from the checkpoint; tied ones stay tied."""
    for name, empty in list(module.named_parameters()):
        if empty.is_meta:
            owner, _, leaf = name.rpartition(".")
            filled = nn.Parameter(reader.read(prefix + name), requires_grad=empty.requires_grad)
            module.get_submodule(owner)._parameters[leaf] = filled
