"""A batch of groups as the tensors that trainers take, and back: a row for each response."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ada_lightning.objective.batch import Group

WIDTH = 3
"""Tokens of the longest response."""


def mask_of(groups: Sequence[Group], dtype: Any) -> Any:
    """Return 1 for each trained token. Shape (responses, WIDTH)."""
    import torch

    lengths = torch.tensor([int(length) for group in groups for length in group.token_counts])
    return (torch.arange(WIDTH) < lengths[:, None]).to(dtype)


def rewards_of(groups: Sequence[Group], dtype: Any) -> Any:
    """Return the reward of each response. Shape (responses,)."""
    import torch

    return torch.tensor([reward for group in groups for reward in group.rewards], dtype=dtype)


def truncated_of(groups: Sequence[Group]) -> Any:
    """Return which responses are truncated. Shape (responses,)."""
    import torch

    return torch.tensor([bool(flag) for group in groups for flag in group.truncated])


def one_a_row(gradient: Any, mask: Any) -> list[float]:
    """Return minus the number that all trained tokens of a row have; NaN where they differ, or others have one."""
    found = []
    for row, trained in zip(gradient, mask, strict=True):
        values = -row[trained > 0] if trained.any() else row.new_zeros(1)
        is_one = bool((values - values[0]).abs().max() < 1e-9) and not bool(row[trained == 0].any())
        found.append(float(values[0]) if is_one else float("nan"))
    return found


def split(values: Iterable[float], groups: Sequence[Group]) -> list[list[float]]:
    """Give each group its values."""
    rest = iter(values)
    return [[float(next(rest)) for _ in group.rewards] for group in groups]


def filled(
    compute: Callable[[Sequence[Group]], Sequence[float]],
    groups: Sequence[Group],
    keeps: Callable[[Group], bool | None],
) -> list[list[float]]:
    """Compute a value for each response of the groups that a filter keeps; the others have 0."""
    is_kept = [keeps(group) is not False for group in groups]
    kept = [group for group, stays in zip(groups, is_kept, strict=True) if stays]
    rest = iter(split(compute(kept), kept) if kept else [])
    return [next(rest) if stays else [0.0] * len(group.rewards) for group, stays in zip(groups, is_kept, strict=True)]
