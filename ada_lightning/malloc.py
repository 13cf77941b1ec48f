"""Keep freed memory in the process on a CPU."""

from __future__ import annotations

import contextlib
import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
_MMAP_THRESHOLD = 2**30
_TRIM_THRESHOLD = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc to reuse large blocks instead of returning each to the kernel.

    By default every large tensor is mapped anew and its pages are zeroed and faulted in again. On 2 cores that
    costs a fifth of an update or more (``python -m benchmarks.update`` measures it side by side).

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


def release_freed_memory() -> None:
    """Give free pages back between steps.

    Reused blocks of changing sizes fragment the heap; over tens of steps that grows to gigabytes. Once a step costs
    little, and the pages of a step's own work are still reused within it.
    """
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)
