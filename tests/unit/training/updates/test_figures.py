"""What the sums of microbatches become: means, maxima, and means over whole pools."""

from __future__ import annotations

import torch

from ada_lightning.training.updates.sums import add_sums, update_figures


def test_sums_add_up_and_maxima_stay() -> None:
    totals: dict[str, torch.Tensor] = {}
    for gap, largest in ((1.0, 0.5), (2.0, 0.25)):
        add_sums(totals, {"logprob_gap": torch.tensor(gap), "logprob_gap_max": torch.tensor(largest)})
    assert {name: float(value) for name, value in totals.items()} == {"logprob_gap": 3.0, "logprob_gap_max": 0.5}


def test_figures_are_means_per_trained_token_or_per_pool_token() -> None:
    sums = {"tokens": 4.0, "computed_tokens": 10.0, "pool_weight": 8.0}
    sums |= {"clipped": 2.0, "entropy": 4.0, "logprob_gap": 1.0, "logprob_gap_max": 0.5, "ratio_max": 3.0}
    assert update_figures(sums) == {
        "train/trained_tokens": 4.0,
        "train/computed_tokens": 10.0,
        "train/clipped": 0.5,
        "train/entropy": 0.5,
        "sync/logprob_gap": 0.25,
        "sync/logprob_gap_max": 0.5,
        "train/ratio_max": 3.0,
    }


def test_an_update_without_tokens_has_no_means() -> None:
    assert update_figures({"computed_tokens": 0.0}) == {"train/trained_tokens": 0.0, "train/computed_tokens": 0.0}
