from __future__ import annotations

import itertools
import random

import pytest

from ada_lightning.core.protocols import GradientNorm
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.gradient_norms import ConstantNorm
from ada_lightning.methods.sampling import GvmSampler
from ada_lightning.methods.sampling.allocation import allocate
from ada_lightning.methods.sampling.forecast import forecast
from ada_lightning.methods.sampling.gvm import gvm_weight
from ada_lightning.methods.selection import AllSelection
from tests.builders import make_pool, make_prompt

ALPHA, BETA = 1e-3, 2.0


class Norms(GradientNorm):
    """Known norms by slot; notes whom it was connected to."""

    def __init__(self, by_slot):
        self.by_slot = by_slot
        self.policy = None

    def connect(self, policy):
        self.policy = policy

    def measure(self, pools):
        return [self.by_slot[pool.slot] for pool in pools]


def sampler_of(norms=None, **settings):
    neutral = {"num_pilot": 4, "responses_per_prompt": 8, "n_max": 32, "group_size": 32}
    return GvmSampler(gradient_norm=norms or ConstantNorm(), **neutral | settings)


def pilots(*positives, size=4):
    return [
        make_pool([1.0] * right + [0.0] * (size - right), slot=slot, key=slot) for slot, right in enumerate(positives)
    ]


def divided(sampler, pools):
    sampler.plan([ResponsePool(pool.prompt, pool.slot) for pool in pools])
    assert [sampler.num_to_draw(ResponsePool(pool.prompt, pool.slot)) for pool in pools] == [sampler.num_pilot] * len(
        pools
    )
    sampler.plan(pools, 1)
    return [pool.num_drawn + sampler.num_to_draw(pool) for pool in pools]


def test_golden_values():
    """Reference section 17, without bounds: 14.667 11.7 7.7 5.477 4.477 3.979 of 48."""
    weights = [gvm_weight(p, 1.0, alpha=ALPHA, beta=BETA) for p in (0.02, 0.1, 0.25, 0.5, 0.75, 0.95)]
    scale = 48 / sum(weights)
    assert [round(scale * weight, 3) for weight in weights] == [14.667, 11.7, 7.7, 5.477, 4.477, 3.979]
    assert allocate(weights, 48, 0, 48) == [15, 12, 8, 5, 4, 4]


def test_the_weight_minimises_the_regularised_variance():
    """Any small shift of responses between two prompts raises the sum of G^2 / (p n) / (1 + alpha / p^beta)."""
    rates, norms, total = [0.02, 0.1, 0.5, 0.9], [1.0, 3.0, 0.5, 2.0], 100.0
    weights = [gvm_weight(p, g, alpha=ALPHA, beta=BETA) for p, g in zip(rates, norms, strict=True)]
    best = [total * weight / sum(weights) for weight in weights]

    def variance(counts):
        return sum(g * g / (p * n) / (1 + ALPHA / p**BETA) for p, g, n in zip(rates, norms, counts, strict=True))

    for giver, taker in itertools.permutations(range(4), 2):
        moved = list(best)
        moved[giver], moved[taker] = moved[giver] - 0.01, moved[taker] + 0.01
        assert variance(moved) > variance(best)


def test_pilots_are_kept_and_the_total_is_met():
    pools = pilots(0, 1, 2, 3, 4)
    counts = divided(sampler_of(), pools)
    assert sum(counts) == 8 * 5
    assert counts[0] == 4  # nothing right: its pilot and no more
    assert counts[1] > counts[2] > counts[3] >= counts[4] >= 4
    weights = [gvm_weight(right / 4, 1.0, alpha=ALPHA, beta=BETA) for right in range(5)]
    assert counts == allocate(weights, 40, 4, 32)


def test_longer_gradients_get_more():
    pools = pilots(2, 2, 2)
    assert divided(sampler_of(Norms({0: 1.0, 1: 4.0, 2: 1.0})), pools) == allocate([1.0, 4.0, 1.0], 24, 4, 32)
    assert divided(sampler_of(Norms({0: 1.0, 1: 0.0, 2: 1.0})), pools)[1] == 4


def test_without_any_right_answer_or_any_gradient_the_rest_is_divided_all_the_same():
    assert divided(sampler_of(), pilots(0, 0, 0)) == [8, 8, 8]
    by_rates_alone = divided(sampler_of(), pilots(1, 2, 4))
    assert divided(sampler_of(Norms({0: 0.0, 1: 0.0, 2: 0.0})), pilots(1, 2, 4)) == by_rates_alone


def test_a_division_follows_the_prompts_and_not_their_order():
    generator = random.Random(0)
    for _ in range(50):
        rights = [generator.randrange(0, 9) for _ in range(6)]
        norms = [generator.uniform(0.1, 3.0) for _ in rights]
        order = generator.sample(range(6), 6)
        sampler = {"num_pilot": 8, "responses_per_prompt": 12, "n_max": 40}
        plain = divided(sampler_of(Norms(dict(enumerate(norms))), **sampler), pilots(*rights, size=8))
        moved = divided(
            sampler_of(Norms({slot: norms[i] for slot, i in enumerate(order)}), **sampler),
            pilots(*(rights[i] for i in order), size=8),
        )
        assert sum(plain) == 72
        assert all(8 <= count <= 40 for count in plain)
        if len(set(zip(rights, norms, strict=True))) == 6 and rights.count(0) < 2:
            assert moved == [plain[i] for i in order]


def test_draws_without_a_grade_count_as_drawn():
    pools = pilots(2, 2)
    pools[0].num_drawn += 1
    empty = ResponsePool(make_prompt(9), 2, num_drawn=4, num_failed=4)
    assert divided(sampler_of(), [*pools, empty])[2] == 4


def test_a_forecast_spends_the_total_and_asks_for_no_gradient():
    class NeverAsked(Norms):
        def measure(self, pools):
            assert not any(response.response_ids for pool in pools for response in pool.responses)
            return [0.0] * len(pools)

    assert forecast([(0, 8), (4, 8), (8, 8)], sampler_of(NeverAsked({})), AllSelection()).num_sampled == 8.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_pilot": 0}, "num_pilot must be at least 1; got 0"),
        ({"responses_per_prompt": 3}, "responses_per_prompt must lie between num_pilot = 4, .* n_max = 32; got 3"),
        ({"responses_per_prompt": 33}, "n_max = 32; got 33"),
        ({"alpha": 0.0}, "alpha must be positive and finite; got 0.0"),
        ({"alpha": float("nan")}, "alpha must be positive and finite; got nan"),
        ({"beta": 1.5}, "beta must be at least 2 and finite, so that hopeless prompts are let go of; got 1.5"),
        ({"group_size": 33}, r"group_size must be in \[1, n_max = 32\]; got 33"),
        ({"num_pilot": -1, "alpha": -1.0}, "num_pilot must be .*; alpha must be"),
    ],
)
def test_values_that_cannot_work_are_rejected_together(change, message):
    with pytest.raises(ValueError, match=message):
        sampler_of(**change)


def test_it_asks_the_policy_for_gradients():
    sampler = sampler_of(norms := Norms({}))
    sampler.connect("the policy")
    assert norms.policy == "the policy"
