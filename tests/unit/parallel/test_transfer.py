from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from ada_lightning.parallel.transfer import flatten, restore
from ada_lightning.training.batch import Microbatch
from ada_lightning.training.packing import pack_groups
from tests.unit.parallel.small_training import ROLLOUTS


@pytest.mark.parametrize("rollout", ROLLOUTS)
def test_batches_survive_the_way(rollout):
    batches = pack_groups(
        ROLLOUTS[rollout](), num_minibatches=2, max_tokens_per_microbatch=40, policy_version=3, shuffle_seed=0,
        keep_groups_without_signal=False, share_prompts=True,
    )  # fmt: skip
    header, buffer = flatten(batches)
    restored = restore(header, buffer)
    assert len(restored) == len(batches) == 2
    for mine, other in zip(batches, restored, strict=True):
        assert mine.counts == other.counts
        assert (mine.policy_version, mine.update_index) == (other.policy_version, other.update_index)
        assert len(mine.microbatches) == len(other.microbatches)
        for ours, theirs in zip(mine, other, strict=True):
            for field in fields(Microbatch):
                value, back = getattr(ours, field.name), getattr(theirs, field.name)
                if isinstance(value, torch.Tensor):
                    assert back.dtype == value.dtype
                    assert torch.equal(back, value), field.name
                else:
                    assert back == value, field.name
