"""How well the pass rates that were predicted before a step agree with what the step drew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.functional import spearman_corrcoef
from torchmetrics.utilities import dim_zero_cat

from ada_lightning.core.records import ResponsePool


class EstimatorCalibration(Metric):
    """Errors and rank correlation of each pool's belief, against its first round, which no rule has biased.

    States add up or are concatenated, so any split over steps and ranks gives the same figures.
    """

    full_state_update = False
    squared_error: Tensor
    num_responses: Tensor
    predicted: list[Tensor]
    observed: list[Tensor]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name in ("squared_error", "num_responses"):
            self.add_state(name, default=torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        for name in ("predicted", "observed"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, pools: Sequence[ResponsePool]) -> None:
        """Add the pools of a step."""
        for pool in pools:
            first_round = pool.responses[: len(pool.first_round_rewards)]
            if not first_round:
                continue
            outcomes = [float(response.is_positive) for response in first_round]
            mean = pool.belief.mean
            self.squared_error += sum((mean - outcome) ** 2 for outcome in outcomes)
            self.num_responses += len(outcomes)
            self.predicted.append(torch.tensor([mean]))
            self.observed.append(torch.tensor([sum(outcomes) / len(outcomes)]))

    def compute(self) -> dict[str, Tensor]:
        """``estimator/brier`` per response, ``estimator/mae`` per prompt, ``estimator/rank_correlation`` (Spearman).

        The mean absolute error is of expected against observed pass rates; VIP (arXiv:2602.01601) measures predictors
        by it. A few responses per prompt leave an error of their own in it: compare estimators on equal numbers. The
        rank correlation is there where both sides vary.
        """
        figures = {"estimator/brier": self.squared_error / self.num_responses.clamp_min(1)}
        if len(self.predicted):  # a list, or one tensor once states are synchronised
            predicted, observed = dim_zero_cat(self.predicted), dim_zero_cat(self.observed)
            figures["estimator/mae"] = (predicted - observed).abs().mean()
            if predicted.unique().numel() > 1 and observed.unique().numel() > 1:
                figures["estimator/rank_correlation"] = spearman_corrcoef(predicted, observed)
        return figures
