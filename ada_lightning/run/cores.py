"""How many cores there are, and how threads on them wait for each other."""

from __future__ import annotations

import os

SPIN_COUNT = "3000"
"""Of libgomp's ``GOMP_SPINCOUNT``: turns that a waiting thread spins, some microseconds, before it sleeps.

Its default is 300,000 where nothing is said of waiting (manual of libgomp).
``research.benchmarks.busy_machine`` compares ways to wait.
"""


def num_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
