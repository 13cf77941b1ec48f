from __future__ import annotations

import pytest
import torch

from ada_lightning.parallel.gradients import clip_to_norm
from tests.unit.parallel import collective_jobs as jobs


@pytest.mark.parametrize("max_norm", [0.5, 1e9])
def test_sharded_and_whole_gradients_are_clipped_by_their_joint_norm(pair, max_norm):
    for norm, clipped, gradients in pair.run(jobs.clip, max_norm=max_norm):
        expected = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        assert norm == pytest.approx(float(expected), rel=1e-6)
        factor = min(1.0, max_norm / (float(expected) + 1e-6))
        torch.testing.assert_close(clipped, [gradient * factor for gradient in gradients])


def test_whole_gradients_are_clipped_as_torch_does():
    ours, torchs = (torch.nn.Linear(4, 3) for _ in range(2))
    for mine, other in zip(ours.parameters(), torchs.parameters(), strict=True):
        mine.grad = torch.randn_like(mine)
        other.grad = mine.grad.clone()
    norm = clip_to_norm(ours.parameters(), 0.1)
    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(torchs.parameters(), 0.1), rtol=0, atol=0)
    for mine, other in zip(ours.parameters(), torchs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=0, atol=0)


def test_nothing_to_clip_has_norm_zero():
    assert float(clip_to_norm([torch.nn.Parameter(torch.ones(2))], 1.0)) == 0
