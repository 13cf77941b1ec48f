from __future__ import annotations

import random

import numpy as np
import torch

from ada_lightning.run.determinism import seed_generators


def draws():
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_what_is_drawn_depends_on_seed_part_and_index_alone():
    keys = [(0, "rollout", 3), (1, "rollout", 3), (0, "update", 3), (0, "rollout", 4)]
    found = []
    for _ in range(2):
        for seed, part, index in keys:
            torch.rand(len(found) + 1)  # whatever drew before
            seed_generators(seed=seed, part=part, index=index)
            found.append(draws())
    assert found[:4] == found[4:]
    for values in zip(*found[:4], strict=True):
        assert len(set(values)) == 4
