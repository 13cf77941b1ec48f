"""Makes a run repeatable: torch's deterministic operations, and generators seeded part by part."""

from __future__ import annotations

import os
import random
from hashlib import blake2b


def make_deterministic(is_wanted: bool) -> None:
    """Let torch use only operations that give the same bits every time, or switch that off again.

    On a GPU torch raises an error if an operation has no such form, and matrix products need a workspace setting that
    CUDA reads when it starts. On a CPU nothing changes for the shipped models. Their operations are deterministic for a
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


def seed_generators(*, seed: int, part: str, index: int) -> None:
    """Seed ``random``, numpy and torch (every device) anew for one part of a run.

    Dropout, a reward baseline of a user and requests without their own seeds draw from them. They then draw the same
    after a resume and after a repeated step, whatever drew before. vLLM's CPU sampler draws from torch's generator at
    every engine step, so states saved in a checkpoint would depend on how often it stepped.

    ``part`` names what follows, such as ``rollout`` or ``update``, and ``index`` is its number in the run.
    """
    import numpy as np
    import torch

    digest = blake2b(f"generators\x1f{seed}\x1f{part}\x1f{index}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest)
    random.seed(number)
    np.random.seed(number % 2**32)
    torch.manual_seed(number % 2**63)
