"""Cuts the layers of Llama-like models across processes: Llama, Mistral, Qwen2, Qwen3.

Attention heads and the inner width of the MLP are divided; embeddings, norms and the output embedding are whole on
every process. The plan is Megatron's (arXiv:1909.08053, section 3): into a block by columns, out of it by rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel

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
