from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.methods.curriculum import Learnability, SignalPerResponse
from ada_lightning.methods.objectives import LogObjective
from ada_lightning.methods.published.reinforce_ada import EstimatedSampler
from ada_lightning.methods.sampling import BalanceSampler, SpreadSampler, UniformSampler
from research.benchmarks.simulation.pass_rates import expectations

RATES = np.array([0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
BALANCE = BalanceSampler(k_pos=2, k_neg=2, samples_per_round=4, n_max=32, group_size=4)


def test_the_cost_is_what_convolution_finds():
    """research.benchmarks.simulation.pass_rates sums over blocks and knows nothing of paths."""
    cost = expectations(RATES, block=4, n_max=32)["samples"]
    assert SignalPerResponse(sampler=BALANCE)(RATES) == pytest.approx(RATES * (1 - RATES) / cost)
    q = 1 - RATES
    logarithm = SignalPerResponse(sampler=BALANCE, objective=LogObjective())(RATES)
    assert logarithm == pytest.approx(q * (1 - q**31) / cost, abs=1e-12)  # what the rule can see of the objective


@pytest.mark.parametrize("sampler", [UniformSampler(group_size=4), EstimatedSampler(responses_per_prompt=4)])
def test_with_groups_of_a_fixed_size_it_is_the_learnability(sampler):
    assert SignalPerResponse(sampler=sampler)(RATES) == pytest.approx(np.array(Learnability()(RATES)) / 4)


def test_the_cost_of_adaptive_sampling_speaks_against_the_extremes_and_the_logarithm_for_the_hard():
    grid = np.linspace(0, 1, 101)
    linear = np.array(SignalPerResponse(sampler=BALANCE)(grid))
    logarithm = np.array(SignalPerResponse(sampler=BALANCE, objective=LogObjective())(grid))
    assert grid[linear.argmax()] == 0.5
    assert linear[10] / linear[50] < 0.09 / 0.25
    assert 0.2 < grid[logarithm.argmax()] < 0.5
    assert logarithm[0] == logarithm[100] == 0


def test_between_the_points_of_its_table_it_is_close():
    rates = np.random.default_rng(0).uniform(0.01, 0.99, 50)
    cost = expectations(rates, block=4, n_max=32)["samples"]
    # linear interpolation on a grid of step 1/400: the second derivative is below 5 of the values' scale
    assert SignalPerResponse(sampler=BALANCE)(rates) == pytest.approx(rates * (1 - rates) / cost, rel=2e-3)


def test_a_sampler_that_looks_at_more_than_counts_is_refused():
    sampler = SpreadSampler(min_spread=0.5, samples_per_round=4, n_max=32, group_size=4)
    with pytest.raises(ValueError, match=r"SpreadSampler stops by more .* curriculum=learnability"):
        SignalPerResponse(sampler=sampler)
