"""Undo the selection in averages over kept responses."""

from __future__ import annotations

from torch import Tensor

from ada_lightning.core.batch import Microbatch


def pool_weights(microbatch: Microbatch) -> Tensor:
    """``(N_s / m_s) (n / N)``: with it a mean over a prompt's kept responses is about the mean over its whole pool.

    The weights of a group average 1, as long as something was kept of every class of its pool, so weighted sums keep
    the size of plain ones. All are 1 where the whole pool was kept.

    Returns:
        Shape ``(B,)``, dimensionless, positive.
    """
    return microbatch.selection_weight_B * microbatch.group_size_B / microbatch.num_sampled_B
