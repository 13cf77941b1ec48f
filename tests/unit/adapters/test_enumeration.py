"""The expected update of a core, summed over every outcome there can be, against what its statement says.

One prompt, responses that are right with probability p and otherwise wrong: a response's score is ``1/p`` or
``-1/(1-p)`` in the one parameter p, so the expected sum of advantage times score is the derivative that is followed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from ada_lightning.adapters import Core
from research.benchmarks.trl_cgrpo import core_ends

RATE = 0.3
SMALL = {"n_max": 6, "samples_per_round": 2}


def expected_update(make: Callable[[], Core]) -> float:
    """Sum over all outcomes of their probability times ``sum of advantage * score``."""
    ends = core_ends(make())
    chances = [end.probability(RATE) for end in ends]
    assert math.fsum(chances) == pytest.approx(1.0, abs=1e-12)
    return math.fsum(chance * end.update(RATE) for chance, end in zip(chances, ends, strict=True))


def seen(weights: Callable[[int], float], num_terms: int) -> float:
    """``sum_j a_j (1-p)^j``: the part of f' that so many responses can see."""
    return sum(weights(power) * (1 - RATE) ** power for power in range(num_terms))


SERIES = {
    "linear": lambda power: float(power == 0),  # f' = 1
    "log": lambda power: 1.0,  # f' = 1 / p
    "pass_at_k": lambda power: 4.0 * (power == 3),  # f' = k (1-p)^(k-1), k = 4
}


@pytest.mark.parametrize("objective", SERIES)
@pytest.mark.parametrize("method", ["ada_seq_balance", "ada_seq_pos"])
def test_stopping_rules_follow_their_objective_as_far_as_they_see_it(method, objective):
    core = Core(method, prompts=["a"], objective=objective, **SMALL)
    assert expected_update(lambda: core) == pytest.approx(seen(SERIES[objective], SMALL["n_max"] - 1), rel=1e-9)


@pytest.mark.parametrize("objective", SERIES)
def test_an_allocation_follows_its_objective(objective):
    core = Core("ada_est_ema", prompts=["a"], objective=objective, responses_per_prompt=6, n_max=6)
    assert expected_update(lambda: core) == pytest.approx(seen(SERIES[objective], 5), rel=1e-9)


def test_history_as_a_baseline_follows_the_mean_pass_rate():
    core = Core("ada", prompts=["a"], group_size=4)
    assert expected_update(lambda: core) == pytest.approx(4.0, rel=1e-9)  # of each of four responses


def test_grpo_is_the_sum_over_its_group():
    """Binomial sum of ``(r - mean) / (std + 1e-6)`` written out once more."""
    size = 4
    wanted = 0.0
    for right in range(1, size):
        mean = right / size
        deviation = math.sqrt((right * (1 - mean) ** 2 + (size - right) * mean**2) / (size - 1)) + 1e-6
        chance = math.comb(size, right) * RATE**right * (1 - RATE) ** (size - right)
        positive, negative = (1 - mean) / deviation, -mean / deviation
        wanted += chance * (right * positive / RATE - (size - right) * negative / (1 - RATE))
    core = Core("grpo", prompts=["a"], group_size=size)
    assert expected_update(lambda: core) == pytest.approx(wanted, rel=1e-9)
