from __future__ import annotations

import random

import pytest

from ada_lightning.core.records import Belief, Prompt, ResponsePool
from ada_lightning.core.stopping import QuotaRule
from ada_lightning.core.stopping.posterior import PosteriorRule
from ada_lightning.methods.sampling import BalanceSampler, GiveUpByPosterior, PositiveSampler
from tests.builders import make_pool

QUOTA = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
SIZES = {"samples_per_round": 4, "n_max": 32, "group_size": 4}


def pool_of(belief, *, prompt_id="x", step=0):
    return ResponsePool(Prompt(prompt_id, ()), slot=0, step=step, belief=belief)


def experienced(**options):
    """Ten responses per completed quota so far."""
    give_up = GiveUpByPosterior(**{"explore_ratio": 0.0, **options})
    give_up.load_state_dict({"num_resolved": 10.0, "num_drawn": 100.0})
    return give_up


def test_nothing_is_given_up_before_the_price_is_known():
    assert GiveUpByPosterior(explore_ratio=0.0).rule(QUOTA, pool_of(Belief(0.1, 20.0))) == QUOTA


def test_beliefs_and_prices_are_rounded_to_a_grid_so_that_rules_repeat():
    rules = {experienced().rule(QUOTA, pool_of(Belief(1.0 + tiny, 3.0))) for tiny in (0.0, 0.01, 0.02)}
    assert len(rules) == 1
    (rule,) = rules
    assert isinstance(rule, PosteriorRule)
    assert rule.alpha == 1.0
    assert rule.min_rate == pytest.approx(0.025, rel=0.1)  # price 1/4 of 1/10, on the grid


def test_it_composes_with_balance_and_pos():
    hopeless = Belief(0.1, 30.0)
    for kind in (
        BalanceSampler(k_pos=2, k_neg=2, give_up=experienced(), **SIZES),
        PositiveSampler(k_pos=1, give_up=experienced(), **SIZES),
    ):
        pool = make_pool([0.0] * 4)
        pool.belief = hopeless
        assert kind.num_to_draw(pool) == 0
        pool.belief = Belief(4.0, 4.0)
        assert kind.num_to_draw(pool) == 4


def test_what_will_be_given_up_is_not_expected_to_go_on():
    """Four wrong ones more, and there is no hope left; by the quotas alone it were nearly certain to go on."""
    pool = make_pool([0.0] * 4)
    pool.belief = Belief(1.0, 3.0)
    sampler = BalanceSampler(k_pos=2, k_neg=2, give_up=experienced(price=0.25), **SIZES)
    patient = BalanceSampler(k_pos=2, k_neg=2, **SIZES)
    assert sampler.num_to_draw(pool) == 4
    assert patient.chance_to_go_on(pool, 0, 4, 4) > 0.8
    assert sampler.chance_to_go_on(pool, 0, 4, 4) < 0.3
    assert sampler.chance_to_go_on(pool, 0, 8, 0) == 0.0
    assert 4 < sampler.expected_need(pool) < 0.5 * patient.expected_need(pool)


def test_every_visit_draws_a_block_even_of_a_hopeless_prompt():
    sampler = BalanceSampler(k_pos=2, k_neg=2, give_up=experienced(), **SIZES)
    assert sampler.num_to_draw(pool_of(Belief(0.01, 1000.0))) == 4


def test_a_share_of_visits_ignores_the_posterior():
    give_up = experienced(explore_ratio=0.25)
    rules = [give_up.rule(QUOTA, pool_of(Belief(0.1, 30.0), step=step)) for step in range(2000)]
    explored = sum(rule == QUOTA for rule in rules)
    assert abs(explored - 500) < 4 * (2000 * 0.25 * 0.75) ** 0.5
    assert rules == [give_up.rule(QUOTA, pool_of(Belief(0.1, 30.0), step=step)) for step in range(2000)]


def test_the_price_is_what_recent_steps_paid_and_survives_a_resume():
    give_up = GiveUpByPosterior(memory=0.5, explore_ratio=0.0)
    solved = make_pool([1.0, 1.0, 0.0, 0.0])
    unsolved = make_pool([0.0] * 32)
    for pool in (solved, unsolved):
        pool.rule = QUOTA
    give_up.learn([solved, unsolved])
    give_up.learn([unsolved])
    assert give_up.state_dict() == {"num_resolved": 0.5, "num_drawn": 0.5 * 36 + 32}
    resumed = GiveUpByPosterior(memory=0.5, explore_ratio=0.0)
    resumed.load_state_dict(give_up.state_dict())
    pool = pool_of(Belief(1.0, 1.0))
    assert resumed.rule(QUOTA, pool) == give_up.rule(QUOTA, pool)


def signals_per_response(give_up, pass_rates, *, beliefs, seed=0):
    generator = random.Random(seed)
    sampler = BalanceSampler(k_pos=2, k_neg=2, give_up=give_up, **SIZES)
    resolved = drawn = 0
    for index, (rate, belief) in enumerate(zip(pass_rates, beliefs, strict=True)):
        pool = make_pool([])
        pool.belief = belief
        pool.step = index
        while (size := sampler.num_to_draw(pool)) > 0:
            for response in make_pool([float(generator.random() < rate) for _ in range(size)]).responses:
                pool.add(response)
        resolved += pool.num_positive >= 2 and pool.num_negative >= 2
        drawn += pool.num_drawn
    return resolved / drawn


def test_more_signal_per_response_on_a_mix_with_hopeless_prompts():
    """Beta(0.3, 1.5) pass rates, each prompt seen with eight responses before: at least a third more signal."""
    generator = random.Random(1)
    pass_rates = [generator.betavariate(0.3, 1.5) for _ in range(1500)]
    seen = [sum(generator.random() < rate for _ in range(8)) for rate in pass_rates]
    beliefs = [Belief(0.3 + positives, 1.5 + 8 - positives) for positives in seen]
    plain = signals_per_response(GiveUpByPosterior(price=0.0), pass_rates, beliefs=beliefs)
    give_up = GiveUpByPosterior(price=0.5, explore_ratio=0.0)
    give_up.load_state_dict({"num_resolved": plain * 1e4, "num_drawn": 1e4})
    assert signals_per_response(give_up, pass_rates, beliefs=beliefs) > 4 / 3 * plain
