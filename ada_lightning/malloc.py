"""Keep freed memory in the process on a CPU."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # <malloc.h>
_MMAP_THRESHOLD = 2**26  # blocks above it still come from the kernel: reusing the largest ones fragments the heap
_TRIM_THRESHOLD = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc to reuse blocks of up to 64 MiB instead of returning each to the kernel.

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


class FreedMemory:
    """Gives free pages back now and then.

    Resident memory of a default run grows from about 5 to about 10 GiB over 30 steps, probably because reused blocks of
    changing sizes fragment the heap; this slows the growth and does not end it. Giving pages back after every step
    would cost the faults that :func:`keep_freed_memory` avoids, so it is done only when the process
    has grown by ``max_growth_gib`` since the first step after the last time.

    Args:
        max_growth_gib: growth of resident memory that is tolerated, in GiB.
    """

    def __init__(self, max_growth_gib: float = 1.0) -> None:
        self._max_growth = max_growth_gib * 2**30
        self._baseline = 0

    def end_step(self) -> None:
        """Look, and give back where it is time. Linux only; elsewhere nothing happens."""
        if not sys.platform.startswith("linux"):
            return
        resident = _resident_bytes()
        if self._baseline == 0:
            self._baseline = resident
        elif resident > self._baseline + self._max_growth:
            with contextlib.suppress(OSError, AttributeError):  # another C library
                ctypes.CDLL("libc.so.6").malloc_trim(0)
            self._baseline = 0


def _resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
