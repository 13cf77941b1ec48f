from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.methods.published.cppo import LargestAdvantageBatchSelection
from ada_lightning.methods.published.pilot_commit import PilotCommitSampler, ResolvedSelection
from ada_lightning.methods.sampling import BalanceSampler, UniformSampler
from ada_lightning.methods.sampling.forecast import forecast, posterior_pass_rates
from ada_lightning.methods.selection import AllSelection, BalancedSelection


def test_certain_prompts_cost_the_whole_budget_and_mixed_ones_little():
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
    hopeless = forecast([(0, 10_000)], sampler, BalancedSelection(group_size=4))
    mixed = forecast([(5_000, 10_000)], sampler, BalancedSelection(group_size=4))
    assert hopeless.num_sampled == pytest.approx(32, abs=0.5)
    # E[N] = 6.8 at p = 1/2 by exact summation; 100 simulations have a standard error of about 0.35
    assert mixed.num_sampled == pytest.approx(6.8, abs=1.4)
    assert mixed.signal_ratio == 1.0


def test_rounds_are_those_of_the_prompt_with_the_most():
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
    selection = BalancedSelection(group_size=4)
    both = forecast([(0, 10_000), (5_000, 10_000)], sampler, selection)
    assert both.num_rounds == pytest.approx(8, abs=0.1)  # a pass rate of 1/20,000 rarely has two right of 32
    assert forecast([(5_000, 10_000)] * 4, UniformSampler(group_size=8), AllSelection()).num_rounds == 1


@pytest.mark.parametrize(("budget", "num_drawn"), [(0, 32), (10_000, 32), (32, 8), (42, 10)])
def test_a_budget_is_shared_out_block_by_block(budget, num_drawn):
    """Four hopeless prompts: blocks of 4 in turn, until the next one does not fit."""
    sampler = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)
    found = forecast([(0, 100_000)] * 4, sampler, BalancedSelection(group_size=4), budget=budget)
    assert found.num_sampled == pytest.approx(num_drawn, abs=0.1)  # where one is right, which is rare, fewer


def test_uniform_signal_is_one_minus_the_chance_of_equal_rewards():
    result = forecast([(5_000, 10_000)] * 40, UniformSampler(group_size=4), AllSelection())
    # 1 - 2 / 16 = 0.875; 4,000 simulations have a standard error of 0.0052, so 0.021 is four of them
    assert result.signal_ratio == pytest.approx(0.875, abs=0.021)


def test_prompts_that_the_selection_turns_down_carry_no_signal():
    sampler = PilotCommitSampler(num_pilot=2, num_commit=2, min_rate=0.5, max_rate=0.5, group_size=4)
    tallies = [(5_000, 10_000)] * 40
    turned_down = forecast(tallies, sampler, ResolvedSelection(selection=AllSelection()))
    # a pilot passes where its two differ: 1/2, with a standard error of 0.0079, so 0.032 is four of them
    assert turned_down.signal_ratio == pytest.approx(0.5, abs=0.032)
    assert turned_down.num_trained == 4 * turned_down.signal_ratio
    of_four = PilotCommitSampler(num_pilot=4, num_commit=2, min_rate=0.5, max_rate=0.5, group_size=6)
    lopsided = forecast(tallies, of_four, ResolvedSelection(selection=AllSelection()))
    # 6 of 16; pilots of 1 or 3 right, 8 of 16, have a signal and are turned down
    assert lopsided.signal_ratio == pytest.approx(0.375, abs=0.031)


def test_no_prompt_is_an_error():
    with pytest.raises(ValueError, match="at least one prompt"):
        forecast([], UniformSampler(group_size=4), AllSelection())


def test_groups_without_a_signal_are_computed_where_the_update_keeps_them():
    hopeless, uniform = [(0, 10_000)], UniformSampler(group_size=4)
    left_out = forecast(hopeless, uniform, AllSelection())
    assert (left_out.num_trained, left_out.trained_ratio) == (pytest.approx(0, abs=0.1), pytest.approx(0, abs=0.03))
    kept = forecast(hopeless, uniform, AllSelection(), keep_groups_without_signal=True)
    assert (kept.num_trained, kept.trained_ratio) == (4.0, 1.0)
    assert kept.signal_ratio == left_out.signal_ratio


@pytest.mark.parametrize(("tallies", "keeps_all"), [([(5_000, 10_000)] * 4, False), ([(0, 10_000)] * 2, True)])
def test_a_selection_of_the_batch_is_forecast_like_any_other(tallies, keeps_all):
    """Half of what is drawn, of whichever prompt; where groups without a signal are left out, 1 in 128, less."""
    selection, uniform = LargestAdvantageBatchSelection(rate=0.5, normalize_std=True), UniformSampler(group_size=8)
    found = forecast(tallies, uniform, selection, keep_groups_without_signal=keeps_all)
    assert found.num_trained == pytest.approx(4, abs=0.2)


def test_what_is_expected_of_pass_rates_holds_as_often_as_it_says():
    """Populations drawn from the prior: in four of five the share of prompts with a signal lies where it should."""
    generator, num_inside, num_populations = np.random.default_rng(0), 0, 100

    def share_with_signal(rates):
        return (1 - rates**8 - (1 - rates) ** 8).mean(axis=-1)

    for _ in range(num_populations):
        mean, correlation = generator.beta(0.5, 0.5), generator.uniform()
        size = 1 / correlation - 1
        truth = generator.beta(mean * size, (1 - mean) * size, size=16)
        tallies = [(int(positive), 4) for positive in generator.binomial(4, truth)]
        low, high = np.quantile(share_with_signal(posterior_pass_rates(tallies, generator)), (0.1, 0.9))
        num_inside += low <= share_with_signal(truth) <= high
    assert abs(num_inside - 80) <= 12  # a binomial of 100 and 0.8 has a standard deviation of 4


def test_prompts_learn_from_each_other():
    def first(tallies):
        return posterior_pass_rates(tallies, np.random.default_rng(0))[:, 0].mean()

    assert first([(0, 8)] * 16) < 0.5 / 9 / 3  # Jeffreys' prior for each alone has 0.5 / 9
    assert first([(0, 4), *[(2, 4)] * 15]) > first([(0, 4)]) * 1.5
