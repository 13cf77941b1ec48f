"""The global random generators as a function of the run's seed and of where the run is."""

from __future__ import annotations

import random
from hashlib import blake2b


def seed_generators(*, seed: int, part: str, index: int) -> None:
    """Seed ``random``, numpy and torch (every device) anew for one part of a run.

    Who draws from them in a step (dropout, a reward baseline of a user, requests without seeds of their own) then draws
    the same after a resume, after a broken engine's repeated step, and whatever drew before. vLLM's CPU sampler draws
    from torch's generator at every engine step, so states saved in a checkpoint would depend on how often it stepped.

    ``part`` is what follows, as ``rollout`` or ``update``, and ``index`` which one of the run.
    """
    import numpy as np
    import torch

    digest = blake2b(f"generators\x1f{seed}\x1f{part}\x1f{index}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest)
    random.seed(number)
    np.random.seed(number % 2**32)
    torch.manual_seed(number % 2**63)
