"""Tell an error that says "no memory" from others, whichever library and device it comes from."""

from __future__ import annotations

import re

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
