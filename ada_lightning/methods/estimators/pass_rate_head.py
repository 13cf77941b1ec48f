"""A small network from a prompt's representation to its pass rate, and the optimiser that trains it."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

_MAX_DEVIATION = 8.0
"""Standard deviations that a feature is clipped to: one that hardly ever moved may jump once the policy changes."""
_MARGIN = 1e-3
"""Distance that predictions keep from 0 and 1, where a Beta belief ends."""


class PassRateHead:
    """Standardise, Linear, GELU, Linear: the logit of a pass rate. CPU, float32; all randomness is its own.

    The last layer starts at 0 with the base rate as bias, so an untrained head predicts the base rate everywhere.

    Args:
        num_features: size of a representation (H).
        width: hidden units.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        base_rate: pass rate to start from, in (0, 1).
        generator: of the initial weights and of the order of examples.
    """

    def __init__(
        self,
        num_features: int,
        *,
        width: int,
        learning_rate: float,
        weight_decay: float,
        base_rate: float,
        generator: torch.Generator,
    ) -> None:
        # skip_init: Linear's own initial values would be drawn from the global generator.
        first = nn.utils.skip_init(nn.Linear, num_features, width)
        last = nn.utils.skip_init(nn.Linear, width, 1)
        with torch.no_grad():
            first.weight.normal_(std=1 / math.sqrt(num_features), generator=generator)
            first.bias.zero_()
            last.weight.zero_()
            last.bias.fill_(math.log(base_rate / (1 - base_rate)))
        self.num_features = num_features
        self.width = width
        self._network = nn.Sequential(first, nn.GELU(), last)
        self._optimizer = torch.optim.AdamW(self._network.parameters(), lr=learning_rate, weight_decay=weight_decay)
        self._generator = generator
        self._num_observed = 0
        self._mean_H = torch.zeros(num_features, dtype=torch.float64)
        self._squared_deviation_H = torch.zeros(num_features, dtype=torch.float64)

    def observe(self, features_PH: Tensor) -> None:
        """Add representations to the mean and spread that features are standardised with.

        Source:
            Chan, Golub and LeVeque 1979: merging the moments of two samples, which does not cancel.
        """
        batch_PH = features_PH.double()
        mean_H = batch_PH.mean(0)
        total = self._num_observed + len(batch_PH)
        shift_H = mean_H - self._mean_H
        self._squared_deviation_H += (batch_PH - mean_H).square().sum(0)
        self._squared_deviation_H += shift_H.square() * self._num_observed * len(batch_PH) / total
        self._mean_H += shift_H * len(batch_PH) / total
        self._num_observed = total

    def fit(
        self, features_NH: Tensor, positives_N: Tensor, sizes_N: Tensor, *, num_epochs: int, batch_size: int
    ) -> None:
        """Raise the binomial likelihood of the outcomes, per response.

        Args:
            features_NH: representations. Shape ``(N, H)``, float32.
            positives_N: positives of each pool. Shape ``(N,)``, float32.
            sizes_N: responses of each pool, at least 1. Shape ``(N,)``, float32.
            num_epochs: passes over them.
            batch_size: pools per optimiser step.
        """
        inputs_NH = self._standardized(features_NH)
        rates_N = positives_N / sizes_N
        mean_size = sizes_N.mean()
        with torch.enable_grad(), _one_thread():
            for _ in range(num_epochs):
                for index_M in torch.randperm(len(rates_N), generator=self._generator).split(batch_size):
                    logits_M = self._network(inputs_NH[index_M])[:, 0]
                    # Divided by the mean size of all pools: within a small batch its own would be a ratio.
                    weights_M = sizes_N[index_M] / mean_size
                    loss = binary_cross_entropy_with_logits(logits_M, rates_N[index_M], weight=weights_M)
                    self._optimizer.zero_grad()
                    loss.backward()
                    self._optimizer.step()
        self._optimizer.zero_grad()

    @torch.no_grad()
    def pass_rates(self, features_PH: Tensor) -> Tensor:
        """Predict. Shape ``(P,)``, float32, inside (0, 1)."""
        logits_P = self._network(self._standardized(features_PH))[:, 0]
        return logits_P.sigmoid().clamp(_MARGIN, 1 - _MARGIN)

    def state_dict(self) -> dict[str, Any]:
        """Weights, optimiser moments and feature statistics. The generator belongs to whoever gave it."""
        return copy.deepcopy(
            {
                "network": dict(self._network.state_dict()),
                "optimizer": self._optimizer.state_dict()["state"],
                "num_observed": self._num_observed,
                "mean": self._mean_H,
                "squared_deviation": self._squared_deviation_H,
            }
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`. Settings of the optimiser stay those of the constructor."""
        state = copy.deepcopy(dict(state))
        self._network.load_state_dict(state["network"])
        settings = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": state["optimizer"], "param_groups": settings})
        self._num_observed = state["num_observed"]
        self._mean_H = state["mean"]
        self._squared_deviation_H = state["squared_deviation"]

    def _standardized(self, features_NH: Tensor) -> Tensor:
        variance_H = self._squared_deviation_H / max(self._num_observed, 1)
        std_H = variance_H.sqrt().clamp_min(1e-6)
        return ((features_NH - self._mean_H) / std_H).clamp(-_MAX_DEVIATION, _MAX_DEVIATION).float()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in this thread alone.

    Sharing out so little work saves nothing, and where other programs keep the cores busy, waiting for the other
    threads makes an update 5 to 40 times slower (measured with 2 threads on 2 cores).
    """
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
