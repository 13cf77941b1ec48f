"""Torch's own part of a reproducible run."""

from __future__ import annotations

import os


def make_deterministic(is_wanted: bool) -> None:
    """Let torch use only operations that give the same bits every time, or switch that off again.

    On a GPU torch raises where an operation has no such form, and matrix products need a workspace setting that CUDA
    reads when it starts. On a CPU nothing changes for the shipped models: their operations are deterministic for a
    given number of threads (``python -m research.benchmarks.exact_resume``). Runs of a sweep share a process.
    """
    import torch

    if is_wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(is_wanted)
    # By default torch then fills every new tensor with NaN, to expose reads of what nobody wrote: a pass over memory
    # for each tensor, in the engine too.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
