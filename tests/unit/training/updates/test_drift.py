"""Figures of drift, against sums over responses written out."""

from __future__ import annotations

import math

import pytest
import torch

from ada_lightning.training.updates.sums import Drift, effective_sample_size
from tests.builders import packed, random_group

GROUP = random_group(3, [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0])


def test_figures_are_sums_over_tokens_and_responses_whatever_the_microbatches():
    batch = packed(GROUP, max_tokens_per_microbatch=20, keep_groups_without_signal=True)
    assert len(batch.microbatches) > 1
    drift, rows, kl = Drift(), [], 0.0
    for microbatch in batch:
        shift_K = 0.1 * torch.randn(microbatch.token_ids_K.numel(), generator=torch.Generator().manual_seed(0))
        drift.add(microbatch.sampling_logprobs_K + shift_K, microbatch)
        kl += sum(math.expm1(value) - value for value in shift_K.tolist())
        for index in range(len(microbatch.rewards_B)):
            own = shift_K[microbatch.response_K == index]
            rows.append((len(own), bool(microbatch.is_positive_B[index]), math.exp(float(own.sum()))))
    figures = drift.figures()

    def ess(ratios):
        return sum(ratios) ** 2 / (len(ratios) * sum(ratio**2 for ratio in ratios))

    num_tokens = sum(length for length, *_ in rows)
    assert figures["staleness/kl"] == pytest.approx(kl / num_tokens, rel=1e-4)
    assert figures["staleness/ess"] == pytest.approx(ess([ratio for *_, ratio in rows]), rel=1e-5)
    for name, label in (("positive", True), ("negative", False)):
        wanted = ess([ratio for _, is_positive, ratio in rows if is_positive is label])
        assert figures[f"staleness/ess_{name}"] == pytest.approx(wanted, rel=1e-5)
    by_length = [ratio for *_, ratio in sorted(rows, key=lambda row: row[0])]
    parts = [by_length[0:2], by_length[2:4], by_length[4:6], by_length[6:7]]  # seven responses
    for number, part in enumerate(parts, start=1):
        assert figures[f"staleness/ess_length_q{number}"] == pytest.approx(ess(part), rel=1e-5)
    mean = sum(math.log(ratio) for *_, ratio in rows) / len(rows)
    assert figures["staleness/sequence_log_ratio"] == pytest.approx(mean, rel=1e-4)


def test_what_has_not_moved_has_all_of_its_samples_and_nothing_noted_is_nothing_logged():
    assert effective_sample_size(torch.full((5,), 700.0, dtype=torch.float64)) == 1.0
    assert effective_sample_size(torch.tensor([0.0, -900.0, -900.0, -900.0])) == 0.25
    assert Drift().figures() == {}
