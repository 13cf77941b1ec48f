from __future__ import annotations

import pytest

from ada_lightning.sampling import BalanceSampler, UniformSampler
from ada_lightning.sampling.forecast import forecast
from ada_lightning.selection import AllSelection, BalancedSelection


def test_certain_prompts_cost_the_whole_budget_and_mixed_ones_little():
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
    hopeless = forecast([(0, 10_000)], sampler, BalancedSelection(group_size=4))
    mixed = forecast([(5_000, 10_000)], sampler, BalancedSelection(group_size=4))
    assert hopeless.num_sampled == pytest.approx(32, abs=0.5)
    # E[N] = 6.8 at p = 1/2 by exact summation; 100 simulations have a standard error of about 0.35
    assert mixed.num_sampled == pytest.approx(6.8, abs=1.4)
    assert mixed.signal_ratio == 1.0


def test_uniform_signal_is_one_minus_the_chance_of_equal_rewards():
    result = forecast([(5_000, 10_000)] * 40, UniformSampler(group_size=4), AllSelection())
    # 1 - 2 / 16 = 0.875; 4,000 simulations have a standard error of 0.0052, so 0.021 is four of them
    assert result.signal_ratio == pytest.approx(0.875, abs=0.021)


def test_no_prompt_is_an_error():
    with pytest.raises(ValueError, match="at least one prompt"):
        forecast([], UniformSampler(group_size=4), AllSelection())


def test_a_selection_of_the_batch_is_forecast_like_any_other():
    from ada_lightning.selection import LargestAdvantageBatchSelection

    selection = LargestAdvantageBatchSelection(rate=0.5, normalize_std=True)
    result = forecast([(5_000, 10_000)] * 4, UniformSampler(group_size=8), selection)
    assert result.num_trained == pytest.approx(4, abs=0.2)  # half; a group without a signal, 1 in 128, gives its share
