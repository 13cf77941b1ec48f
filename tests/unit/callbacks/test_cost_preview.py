from __future__ import annotations

import pytest

from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.refill import AdaptiveDynamicSampling, DynamicSampling, NoRefill
from callbacks.cost_preview import expected_prompts, update_passes


@pytest.mark.parametrize(
    ("refill", "signal_ratio", "expected"),
    [
        (NoRefill(), 0.5, 32),
        (DynamicSampling(refill_ratio=0.0), 0.5, 64),
        (DynamicSampling(refill_ratio=1.0), 0.3, 128),  # 96 have 28.8
        (DynamicSampling(oversampling=3, refill_ratio=3, max_ratio=30), 0.5, 96),
        (DynamicSampling(), 0.0, 320),
        (AdaptiveDynamicSampling(), 0.5, 68),  # 48 have 24; 8 missing, 20 more
    ],
)
def test_a_filled_up_step_is_forecast_by_its_own_waves(refill, signal_ratio, expected):
    assert expected_prompts(refill, 32, signal_ratio) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 1),
        ({"num_minibatches": 4}, 4 / 3),  # all responses once more, forward alone, before the first update
        ({"epochs_per_rollout": 2}, 7 / 3),
        ({"num_minibatches": 4, "epochs_per_rollout": 2}, 7 / 3),
    ],
)
def test_the_update_is_forecast_with_all_its_passes(options, expected):
    data = RolloutDataModule(source=None, prompts_per_step=8, max_prompt_tokens=8, num_steps=1, seed=0, **options)
    assert update_passes(data) == pytest.approx(expected)
