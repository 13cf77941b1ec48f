import numpy as np
import pytest

from research.studies.field.reach import best_factor, saving, time_scale
from research.studies.field.standing import time_scales

TOKENS = np.linspace(0.0, 480.0, 121)


def rate(tokens):
    """Rises from 0.2 and is flat at the end, as the field's curves are."""
    return 0.4 - 0.2 * np.exp(-tokens / 80)


def run(speed, *, lift=0.0):
    """A run that is ``speed`` times faster; ``lift`` is how much higher it comes, by share of its way."""
    rates = rate(speed * TOKENS)
    rates = rates + lift * (rates - 0.2) / 0.2
    return [
        {
            "generated_tokens": tokens,
            "trained_tokens": tokens,
            "seconds": 2 * tokens,
            "updates": tokens,
            "avg_at_4": each,
        }
        for tokens, each in zip(TOKENS, rates, strict=True)
    ]


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.7, 3.0])
def test_a_run_that_is_faster_all_along_has_its_speed_for_a_factor(speed):
    tokens = np.linspace(0.0, 480.0, 400)
    assert best_factor(tokens, rate(tokens), tokens, rate(speed * tokens)) == pytest.approx(speed, rel=1e-3)
    found = time_scale({0: run(1.0)}, {0: run(speed)}, "seconds")
    assert found.value == pytest.approx(speed, rel=0.01)  # straight lines between points of a bent curve


def test_a_comparator_that_is_a_little_higher_moves_it_less_than_the_cost_of_reaching_the_end():
    lifted, plain, other = {0: run(1.0, lift=0.01)}, {0: run(1.0)}, {0: run(1.7)}
    change = time_scale(plain, other, "generated_tokens").value / time_scale(lifted, other, "generated_tokens").value
    by_level = [saving([base], other, "generated_tokens") for base in (plain, lifted)]
    assert change < 1.2
    assert by_level[1].is_bound  # it never gets there, however little is missing
    assert not by_level[0].is_bound


def test_interval_is_that_of_paired_seeds():
    """Every seed has its luck, which both methods share: the factor is the same for each."""
    bases = {seed: run(1.0, lift=0.02 * seed) for seed in range(3)}
    others = {seed: run(1.0, lift=0.02 * seed) for seed in range(3)}
    found = time_scale(bases, others, "generated_tokens")
    near_one = pytest.approx(1, abs=1e-3)  # the search for the factor ends within 1e-5
    assert (found.low, found.value, found.high) == (near_one, near_one, near_one)


def test_all_are_held_against_one_comparator_for_each_cost():
    found = {"grpo_n4": {0: run(1.0)}, "grpo_n4_4_updates": {0: run(0.5)}, "ada": {0: run(2.0)}}
    scales = time_scales(found)
    assert scales["ada"]["generated_tokens"].value == pytest.approx(2, rel=0.01)
    assert scales["ada"]["seconds"].value == pytest.approx(4, rel=0.01)


def test_a_missing_comparator_is_named():
    with pytest.raises(ValueError, match="no run of grpo_n4_4_updates is done"):
        time_scales({"grpo_n4": {0: run(1.0)}})
