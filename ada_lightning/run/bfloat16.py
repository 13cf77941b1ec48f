"""Whether bfloat16 is worth computing in on this machine."""

from __future__ import annotations


def has_fast_bfloat16(*, on_gpu: bool) -> bool:
    """Whether matrix products in bfloat16 are at least about as fast as in float32 here.

    A GPU since Ampere has them (one that this machine lacks is taken for such), and a CPU for which oneDNN has kernels
    (x86 with AVX-512 or AMX, some Arm). Elsewhere torch multiplies one number after another, and float32 is several
    times as fast.
    """
    import torch

    if on_gpu:
        return not torch.cuda.is_available() or torch.cuda.is_bf16_supported(including_emulation=False)
    # The very question by which torch chooses between oneDNN and its own loop.
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def concrete_dtype(dtype: str) -> str:
    """Return the name of the torch type that an engine on this machine computes in.

    ``auto`` is bfloat16 where that is fast, else float32; any other name stays.

    Example:
        >>> concrete_dtype("float32"), concrete_dtype("auto") in ("bfloat16", "float32")
        ('float32', True)
    """
    if dtype != "auto":
        return dtype
    import torch

    return "bfloat16" if has_fast_bfloat16(on_gpu=torch.cuda.is_available()) else "float32"
