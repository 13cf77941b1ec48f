from __future__ import annotations

from types import SimpleNamespace

import pytest

from ada_lightning.advantages import GroupNormalizedAdvantage, HistoryBaselineAdvantage
from ada_lightning.data.datamodule import RolloutDataModule
from ada_lightning.refill import AdaptiveDynamicSampling, DynamicSampling, NoRefill
from ada_lightning.sampling.forecast import Forecast
from callbacks.cost_preview import computes_all_groups, expected_prompts, trained_tokens, update_passes


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


@pytest.mark.parametrize(
    ("advantage", "needs_all", "skips", "expected"),
    [
        (GroupNormalizedAdvantage(), False, True, False),
        (GroupNormalizedAdvantage(), True, True, True),  # KL, entropy, flowrl, a baseline from history
        (GroupNormalizedAdvantage(), False, False, True),  # data.skip_groups_without_signal=false
        (HistoryBaselineAdvantage(), False, True, True),  # assigned: experiment=ada
    ],
)
def test_groups_of_equal_rewards_count_where_the_update_computes_them(advantage, needs_all, skips, expected):
    policy = SimpleNamespace(advantage=advantage, needs_groups_without_signal=needs_all)
    assert computes_all_groups(policy, SimpleNamespace(skip_groups_without_signal=skips)) is expected


def test_a_prompt_is_computed_once_where_it_is_shared_whether_it_has_a_signal_or_not():
    expected = Forecast(num_sampled=4, num_trained=4, signal_ratio=0.25, trained_ratio=1.0)
    assert trained_tokens(expected, prompt_tokens=10, response_tokens=5, share_prompts=True) == 30
    assert trained_tokens(expected, prompt_tokens=10, response_tokens=5, share_prompts=False) == 60
