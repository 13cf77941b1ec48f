"""Advantages that are assigned to a whole rollout at once, and then travel with the responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from ada_lightning.core.batch import Microbatch
from ada_lightning.core.protocols import RolloutAdvantage
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.functional.whitening import whitened


class AssignedAdvantage:
    """The half of a :class:`~ada_lightning.core.protocols.RolloutAdvantage` that all of them share."""

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return what was assigned. Shape ``(B,)``, float32."""
        return microbatch.assigned_advantage_B


def with_advantages(advantage: RolloutAdvantage, groups: Sequence[ResponseGroup]) -> tuple[ResponseGroup, ...]:
    """Write the advantages of a whole rollout into its groups."""
    return tuple(
        replace(
            group, kept=tuple(replace(kept, advantage=value) for kept, value in zip(group.kept, values, strict=True))
        )
        for group, values in zip(groups, advantage.assign(groups), strict=True)
    )


def whitened_groups(
    groups: Sequence[ResponseGroup], values: Sequence[Sequence[float]], *, by_tokens: bool, epsilon: float
) -> list[list[float]]:
    """Whiten over all kept responses of a rollout, each once, or each as often as it has tokens.

    Args:
        groups: of one rollout.
        values: one per kept response, group by group.
        by_tokens: count a response as often as it has tokens.
        epsilon: see :func:`~ada_lightning.methods.functional.whitening.whitened`.
    """
    weights = [float(len(kept.response.response_ids)) if by_tokens else 1.0 for group in groups for kept in group.kept]
    flat = iter(whitened([value for row in values for value in row], weights, epsilon=epsilon))
    return [[next(flat) for _ in row] for row in values]
