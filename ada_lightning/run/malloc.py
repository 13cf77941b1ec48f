"""Keep freed memory in the process on a CPU."""

from __future__ import annotations

import contextlib
import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
_MMAP_THRESHOLD = 2**26  # blocks above it still come from the kernel: reusing the largest ones fragments the heap
_TRIM_THRESHOLD = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc to reuse blocks of up to 64 MiB instead of returning each to the kernel.

    By default every large tensor is mapped anew and its pages are zeroed and faulted in again. On 2 cores that
    costs a fifth of an update or more (``python -m research.benchmarks.update`` measures it side by side).

    Returns:
        Whether the C library took the setting; False where it is not glibc.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD) and mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD))


def give_back_freed_memory() -> None:
    """Return free pages to the kernel; called after every update, before a rollout that needs none of them.

    An update of the default model frees more than 2 GiB. Kept, they are not all found again by the next update, whose
    tensors have other sizes, and resident memory grows from step to step: to 10 GB over a default run.
    Mapping them anew once per update costs a twentieth of it. Nothing happens where the C library is not glibc.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)
