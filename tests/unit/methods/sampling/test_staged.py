"""GVM and XRPO: pilots first, then what they say, until the step's total is met exactly."""

from __future__ import annotations

import itertools
import math
import random
from statistics import stdev

import pytest
from scipy.stats import t

from ada_lightning.core.protocols import GradientNorm
from ada_lightning.core.records import ResponsePool
from ada_lightning.methods.gradient_norms import ConstantNorm
from ada_lightning.methods.published.gvm import GvmSampler, gvm_weight
from ada_lightning.methods.published.xrpo import XrpoSampler, xrpo_priority
from ada_lightning.methods.sampling.allocation import allocate
from ada_lightning.methods.sampling.forecast import forecast
from ada_lightning.methods.selection import AllSelection
from tests.builders import make_pool, make_prompt
from tests.unit.methods.sampling.planning import GOLDEN, divided, pilots

ALPHA, BETA = 1e-3, 2.0
SIZES = {"num_pilot": 4, "responses_per_prompt": 8, "n_max": 32, "group_size": 32}


class Norms(GradientNorm):
    """Known norms by slot; notes whom it was connected to."""

    def __init__(self, *by_slot):
        self.by_slot, self.policy = by_slot, None

    def connect(self, policy):
        self.policy = policy

    def measure(self, pools):
        return [self.by_slot[pool.slot] for pool in pools]


def gvm(norms=None, **options):
    return GvmSampler(gradient_norm=norms or ConstantNorm(), **SIZES | options)


def xrpo(**options):
    return XrpoSampler(**SIZES | options)


class TestGvm:
    def test_golden_values(self):
        """Without bounds: 14.667 11.7 7.7 5.477 4.477 3.979 of 48."""
        weights = [gvm_weight(p, 1.0, alpha=ALPHA, beta=BETA) for p in GOLDEN]
        scale = 48 / sum(weights)
        assert [round(scale * weight, 3) for weight in weights] == [14.667, 11.7, 7.7, 5.477, 4.477, 3.979]

    def test_the_weight_minimises_the_regularised_variance(self):
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

    def test_pilots_are_kept_and_the_rest_is_divided_by_their_weights(self):
        counts = divided(gvm(), pilots(0, 1, 2, 3, 4))
        assert counts[0] == 4  # nothing right: its pilot and no more
        weights = [gvm_weight(right / 4, 1.0, alpha=ALPHA, beta=BETA) for right in range(5)]
        assert counts == allocate(weights, 40, 4, 32)

    @pytest.mark.parametrize(
        ("norms", "rights", "weights"),
        [
            ((1.0, 4.0, 1.0), (2, 2, 2), [1.0, 4.0, 1.0]),  # longer gradients get more
            ((1.0, 0.0, 1.0), (2, 2, 2), [1.0, 0.0, 1.0]),
            ((1.0, 1.0, 1.0), (0, 0, 0), [1.0, 1.0, 1.0]),  # nothing right anywhere
        ],
    )
    def test_norms_weigh(self, norms, rights, weights):
        assert divided(gvm(Norms(*norms)), pilots(*rights)) == allocate(weights, 24, 4, 32)

    def test_where_no_gradient_has_a_length_pass_rates_alone_decide(self):
        assert divided(gvm(Norms(0.0, 0.0, 0.0)), pilots(1, 2, 4)) == divided(gvm(), pilots(1, 2, 4))

    def test_a_division_follows_the_prompts_and_not_their_order(self):
        generator = random.Random(0)
        sizes = {"num_pilot": 8, "responses_per_prompt": 12, "n_max": 40}
        for _ in range(50):
            rights = [generator.randrange(0, 9) for _ in range(6)]
            norms = [generator.uniform(0.1, 3.0) for _ in rights]
            order = generator.sample(range(6), 6)
            plain = divided(gvm(Norms(*norms), **sizes), pilots(*rights, size=8))
            moved = divided(
                gvm(Norms(*(norms[i] for i in order)), **sizes), pilots(*(rights[i] for i in order), size=8)
            )
            assert sum(plain) == 72
            assert all(8 <= count <= 40 for count in plain)
            if rights.count(0) < 2:
                assert moved == [plain[i] for i in order]

    def test_it_asks_the_policy_for_gradients(self):
        sampler = gvm(norms := Norms())
        sampler.connect("the policy")
        assert norms.policy == "the policy"


class TestXrpo:
    @pytest.mark.parametrize("num_sampled", [2, 3, 8, 31])
    @pytest.mark.parametrize("significance", [0.05, 0.3])
    def test_the_priority_is_the_gain_in_half_width_and_the_bonus(self, num_sampled, significance):
        def half_width(n):
            return t.ppf(1 - significance / 2, n - 1) * 0.4 / math.sqrt(n)

        expected = half_width(num_sampled) - half_width(num_sampled + 1) + 0.2 * math.log(1 + 100) / num_sampled
        got = xrpo_priority(num_sampled, 0.4, 100, significance=significance, exploration=0.2)
        assert got == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("num_sampled", [0, 1])
    def test_one_response_has_no_spread(self, num_sampled):
        priority = xrpo_priority(num_sampled, 0.0, 10, significance=0.05, exploration=0.1)
        assert priority == pytest.approx(0.1 * math.log(11))

    @pytest.mark.parametrize(("spread", "exploration"), [(0.5, 0.0), (0.0, 0.1), (0.3, 0.2)])
    @pytest.mark.parametrize("significance", [0.001, 0.05, 0.5, 0.999])
    def test_priorities_fall_with_every_response(self, spread, exploration, significance):
        """Otherwise the division would not be the best one, and is refused."""
        options = {"significance": significance, "exploration": exploration}
        priorities = [xrpo_priority(n, spread, 50, **options) for n in range(2, 200)]
        assert all(first > second for first, second in itertools.pairwise(priorities))

    @pytest.mark.parametrize(("rights", "exploration"), [((0, 1, 2), 0.1), ((0, 1, 2), 0.3), ((0, 0, 1), 0.1)])
    def test_a_round_is_the_best_division_by_brute_force(self, rights, exploration):
        """One round of six responses among three prompts: no division has a larger sum of priorities."""
        spreads = [stdev([1.0] * right + [0.0] * (4 - right)) for right in rights]

        def worth(given):
            return sum(
                xrpo_priority(4 + k, spread, 12, significance=0.05, exploration=exploration)
                for spread, number in zip(spreads, given, strict=True)
                for k in range(number)
            )

        best = max((given for given in itertools.product(range(7), repeat=3) if sum(given) == 6), key=worth)
        counts = divided(xrpo(num_rounds=1, responses_per_prompt=6, exploration=exploration), pilots(*rights))
        assert worth([count - 4 for count in counts]) == pytest.approx(worth(best), rel=1e-12)

    def test_rounds_share_what_the_pilots_leave_and_look_again(self):
        pools, sampler = pilots(2, 0), xrpo(exploration=0.0)
        sampler.plan(pools)
        sampler.plan(pools, 1)
        assert [sampler.num_to_draw(pool) for pool in pools] == [4, 0]  # only the first has a spread
        changed = [make_pool([1.0, 1.0, 0.0, 0.0] + [1.0] * 4), make_pool([0.0] * 4, slot=1, key=1)]
        sampler.plan(changed, 2)
        assert [sampler.num_to_draw(pool) for pool in changed] == [4, 0]

    @pytest.mark.parametrize(
        ("options", "rights", "expected"),
        [
            ({"exploration": 0.0, "num_rounds": 1, "n_max": 10, "group_size": 10}, (2, 0, 0), [10, 10, 4]),
            ({"num_rounds": 1, "n_max": 8, "group_size": 8}, (2, 0, 0), [8, 8, 8]),
            ({"responses_per_prompt": 5, "num_rounds": 4}, (2,), [5]),  # rounds without a response
        ],
    )
    def test_no_prompt_gets_more_than_the_cap_and_the_total_is_met(self, options, rights, expected):
        assert divided(xrpo(**options), pilots(*rights)) == expected


@pytest.mark.parametrize("sampler", [gvm(), xrpo(exploration=0.0, num_rounds=1)])
def test_draws_without_a_grade_count_as_drawn_and_do_not_eat_the_step(sampler):
    failed = ResponsePool(make_prompt(9), 1, num_drawn=4, num_failed=4)
    assert divided(sampler, [*pilots(2), failed]) == [12, 4]


@pytest.mark.parametrize("sampler", [gvm(), xrpo()])
def test_a_forecast_spends_the_total(sampler):
    assert forecast([(0, 8), (4, 8), (8, 8)], sampler, AllSelection()).num_sampled == 8.0


def test_a_forecast_asks_for_no_gradient_of_real_tokens():
    class NeverAsked(Norms):
        def measure(self, pools):
            assert not any(response.response_ids for pool in pools for response in pool.responses)
            return [0.0] * len(pools)

    forecast([(0, 8), (4, 8)], gvm(NeverAsked()), AllSelection())
