from __future__ import annotations

import pytest

from ada_lightning.refill import AdaptiveDynamicSampling, DynamicSampling, NoRefill
from callbacks.cost_preview import expected_prompts


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
