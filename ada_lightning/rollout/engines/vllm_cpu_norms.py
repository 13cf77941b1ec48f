"""Let vLLM use its own C kernels for RMS norms on a CPU. vLLM 0.26 to 0.33 builds them and does not use them.

Its ``vllm_c`` provider of these operations is for GPUs only. So on a CPU a norm is eight PyTorch operations, each with
a pass over memory.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor

_PROVIDER = "vllm_c_on_cpu"


def register_cpu_norms() -> dict[str, dict[str, list[str]]]:
    """Register the kernels with vLLM's registry of operations, once per process.

    Returns:
        Arguments for ``EngineArgs``; empty where this is not a CPU build, or it lacks the kernels or the registry: vLLM
        0.33 says that 0.34 will have none.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu() or find_spec("vllm.ir") is None:
        return {}
    from vllm import ir

    current_platform.import_kernels()
    if not hasattr(torch.ops._C, "rms_norm") or not hasattr(torch.ops._C, "fused_add_rms_norm"):
        return {}
    if _PROVIDER not in ir.ops.rms_norm.impls:
        ir.ops.rms_norm.register_impl(_PROVIDER, supports_args=_fits)(_rms_norm)
        ir.ops.fused_add_rms_norm.register_impl(_PROVIDER, supports_args=_fits_residual, inplace=True)(
            _fused_add_rms_norm
        )
    return {"ir_op_priority": {"rms_norm": [_PROVIDER], "fused_add_rms_norm": [_PROVIDER]}}


def _fits(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> bool:
    """Contiguous rows, normalised whole, in the weight's own dtype: what the kernels compute."""
    return variance_size is None and weight is not None and weight.dtype == x.dtype and x.is_contiguous()


def _fits_residual(
    x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> bool:
    return _fits(x, weight, epsilon, variance_size) and x_residual.is_contiguous()


def _rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> Tensor:
    output = torch.empty_like(x)
    torch.ops._C.rms_norm(output, x, weight, epsilon)
    return output


def _fused_add_rms_norm(
    x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> tuple[Tensor, Tensor]:
    torch.ops._C.fused_add_rms_norm(x, x_residual, weight, epsilon)
    return x, x_residual
