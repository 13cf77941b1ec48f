"""Keep freed memory in the process on a CPU."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
_MMAP_THRESHOLD = 2**30
_TRIM_THRESHOLD = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc to reuse large blocks instead of returning each to the kernel.

    By default every tensor above 32 MiB is mapped anew and its pages are zeroed and faulted in again: on 2 cores that
    is a third of the time of a forward and backward pass (``python -m benchmarks.malloc``).

    Returns:
        Whether the C library took the setting; False where it is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD) and mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD))
