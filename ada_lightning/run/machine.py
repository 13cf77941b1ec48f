"""The resources of a machine: cores, memory, fast bfloat16, and the errors that mean out of memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re

SPIN_COUNT = "3000"
"""Of libgomp's ``GOMP_SPINCOUNT``: turns that a waiting thread spins, some microseconds, before it sleeps.

Its default is 300,000 where nothing is said of waiting (manual of libgomp).
``research.benchmarks.busy_machine`` compares ways to wait.
"""


def num_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
_TRIM_THRESHOLD = 2**31 - 1


def keep_freed_memory(largest_bytes: int = 2**26) -> bool:
    """Tell glibc to reuse blocks of up to 64 MiB, or so many bytes, instead of returning each to the kernel.

    By default every large tensor is mapped anew and its pages are zeroed and faulted in again. On 2 cores that
    costs a fifth of an update or more (``python -m research.benchmarks.update`` measures it side by side).

    Args:
        largest_bytes: blocks above it still come from the kernel. Where sizes differ from step to step, as in an
            update, reusing the largest ones fragments the heap.

    Returns:
        Whether the C library took the setting; False where it is not glibc.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, largest_bytes) and mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD))


def give_back_freed_memory() -> None:
    """Return free pages to the kernel; called after every update, before a rollout that needs none of them.

    An update of the default model frees more than 2 GiB. Kept, they are not all found again by the next update, whose
    tensors have other sizes, and resident memory grows from step to step: to 10 GB over a default run.
    Mapping them anew once per update costs a twentieth of it. Nothing happens where the C library is not glibc.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)


_BFLOAT16 = ("avx512_bf16", "amx_bf16", "avx_ne_convert")
"""Of x86: instructions that multiply or convert bfloat16."""


def has_fast_bfloat16(*, on_gpu: bool) -> bool:
    """Whether matrix products in bfloat16 are at least about as fast as in float32 here.

    A GPU since Ampere has them; one that this machine lacks is taken for such. So has a CPU with instructions for them:
    x86 with AVX512_BF16, AMX or AVX-NE-CONVERT, and some Arm. Torch also says yes to x86 that has AVX-512 alone, as up
    to Ice Lake. There oneDNN converts every number, and float32 is up to four times as fast.
    """
    import torch

    if on_gpu:
        return not torch.cuda.is_available() or torch.cuda.is_bf16_supported(including_emulation=False)
    # The very question by which torch chooses between oneDNN and its own loop.
    has_kernels, machine = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()), torch.cpu.get_capabilities()
    return has_kernels and (machine["architecture"] != "x86_64" or any(machine.get(name) for name in _BFLOAT16))


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


_SAID = re.compile(
    r"out[ _]of[ _](?:\w+[ _])?memory|(?:can'?t|cannot|failed to) allocate memory|not enough memory"
    r"|ALLOC(?:ATION)?_FAILED|status_memory_error|bad_alloc",
    re.IGNORECASE,
)
"""Phrases of the libraries that raise a plain RuntimeError, where torch's own allocators have an error of their own.

They are the CUDA runtime and driver ("CUDA error: out of memory") and their libraries (CUBLAS_STATUS_ALLOC_FAILED, also
of cuSOLVER, cuFFT and hipBLAS; CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED), rocBLAS, oneAPI
(UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY), MPS, the CPU's allocator, and compiled code that wraps any of them.
"""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory, on a device or on the host."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_SAID.search(str(error))))
