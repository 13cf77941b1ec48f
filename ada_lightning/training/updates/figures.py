"""The sums that microbatches leave for logging, and what they become for an update."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ada_lightning.training.losses.terms import POOL_WEIGHTED


def add_sums(totals: dict[str, Tensor], sums: Mapping[str, Tensor]) -> None:
    """Add a microbatch's sums to those of the update so far; of a name that ends in ``_max`` the larger one stays."""
    for name, value in sums.items():
        if name not in totals:
            totals[name] = value
        else:
            totals[name] = torch.maximum(totals[name], value) if name.endswith("_max") else totals[name] + value


def update_figures(sums: Mapping[str, float]) -> dict[str, float]:
    """Return the figures of an update, means per trained token unless their name says otherwise.

    Args:
        sums: over all microbatches and ranks, as :class:`~ada_lightning.training.losses.PolicyLoss` names them, with
            ``tokens``, those that trained, and ``computed_tokens``, those of the forward passes; without ``tokens``
            where nothing trained.

    Returns:
        ``train/<name>``; the distance between trainer and engine as ``sync/<name>``.
    """
    sums = dict(sums)
    num_tokens, computed_tokens = sums.pop("tokens", 0.0), sums.pop("computed_tokens")
    pool_weight = sums.pop("pool_weight", 1.0)
    per_token = max(num_tokens, 1.0)
    figures = {"train/trained_tokens": num_tokens, "train/computed_tokens": computed_tokens}
    for name, value in sums.items():
        room = "sync" if name.startswith("logprob_gap") else "train"
        divisor = 1.0 if name.endswith("_max") else pool_weight if name in POOL_WEIGHTED else per_token
        figures[f"{room}/{name}"] = value / divisor
    return figures
