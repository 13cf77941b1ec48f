from __future__ import annotations

import itertools

import pytest
from scipy.stats import betabinom

from ada_lightning.core.stopping import QuotaRule
from ada_lightning.core.stopping.posterior import (
    PosteriorRule,
    completion_chance,
    completion_rate,
    expected_draws,
    expected_draws_until_stop,
    going_on_chance,
)

QUOTA = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=16)


def brute_rate(alpha, beta, positives, negatives):
    """Every number of blocks tried, chances summed over the numbers of positives that complete the quotas."""

    def chance(draws):
        return sum(
            betabinom.pmf(more, draws, alpha + positives, beta + negatives)
            for more in range(draws + 1)
            if QUOTA.is_resolved(positives + more, negatives + draws - more)
        )

    blocks = (16 - positives - negatives) // 4
    return max(
        chance(4 * h) / (4 * sum(1 - (chance(4 * k) if k else 0.0) for k in range(h))) for h in range(1, blocks + 1)
    )


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.2, 5.0), (8.0, 0.5)])
@pytest.mark.parametrize(("positives", "negatives"), [(0, 4), (1, 3), (4, 0), (0, 8), (1, 11), (12, 0)])
def test_completion_rate_equals_a_plain_sum(alpha, beta, positives, negatives):
    expected = brute_rate(alpha, beta, positives, negatives)
    assert completion_rate(QUOTA, alpha, beta, positives, negatives) == pytest.approx(expected, rel=1e-9)


def test_gives_up_on_the_hopeless_and_the_mastered_and_only_between_blocks():
    rule = PosteriorRule(QUOTA, alpha=1.0, beta=1.0, min_rate=0.1)
    assert rule.stops(0, 8)
    assert rule.stops(8, 0)
    assert not rule.stops(0, 7)
    assert not rule.stops(1, 3)
    assert not rule.stops(0, 0)


def test_a_higher_price_gives_up_sooner_and_never_later():
    for positives, negatives in itertools.product(range(17), repeat=2):
        if positives + negatives <= 16:
            cheap = PosteriorRule(QUOTA, 1.0, 3.0, min_rate=0.02).stops(positives, negatives)
            dear = PosteriorRule(QUOTA, 1.0, 3.0, min_rate=0.2).stops(positives, negatives)
            assert dear or not cheap


def test_history_decides_what_the_same_counts_mean():
    assert not PosteriorRule(QUOTA, alpha=3.0, beta=3.0, min_rate=0.1).stops(0, 4)
    assert PosteriorRule(QUOTA, alpha=0.2, beta=20.0, min_rate=0.1).stops(0, 4)


BELIEFS = [(1.0, 1.0), (0.2, 5.0), (8.0, 0.5)]
BOUNDARIES = [(0, 0), (0, 4), (1, 3), (4, 0), (0, 8), (1, 11)]


@pytest.mark.parametrize("belief", BELIEFS)
@pytest.mark.parametrize("counts", [*BOUNDARIES, (0, 3), (3, 2)])
@pytest.mark.parametrize("num_draws", [0, 1, 3, 4])
def test_the_chance_to_go_on_is_a_plain_sum_over_what_may_come(belief, counts, num_draws):
    """The rule's own word at the end of a block, and the quotas' in between."""
    rule = PosteriorRule(QUOTA, *belief, min_rate=0.1)
    expected = sum(
        betabinom.pmf(more, num_draws, belief[0] + counts[0], belief[1] + counts[1])
        for more in range(num_draws + 1)
        if not rule.stops(end := counts[0] + more, counts[1] + num_draws - more)
        and not QUOTA.is_resolved(end, counts[1] + num_draws - more)
    )
    assert going_on_chance(rule, QUOTA, belief, counts, num_draws) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("belief", BELIEFS)
@pytest.mark.parametrize("counts", BOUNDARIES)
def test_a_rule_that_never_gives_up_has_the_chance_and_the_need_of_its_quotas(belief, counts):
    for rule in (QUOTA, PosteriorRule(QUOTA, *belief, min_rate=0.0)):
        chance = 1 - completion_chance(QUOTA, *belief, *counts, 3)
        assert going_on_chance(rule, QUOTA, belief, counts, 3) == pytest.approx(chance, rel=1e-9)
        need = expected_draws(QUOTA, *belief, *counts)
        assert expected_draws_until_stop(rule, belief, counts) == pytest.approx(need, rel=1e-9)


def need_by_recursion(rule, belief, counts):
    if rule.stops(*counts):
        return 0.0
    chance = (belief[0] + counts[0]) / (sum(belief) + sum(counts))
    positive, negative = (counts[0] + 1, counts[1]), (counts[0], counts[1] + 1)
    return (
        1
        + chance * need_by_recursion(rule, belief, positive)
        + (1 - chance) * need_by_recursion(rule, belief, negative)
    )


@pytest.mark.parametrize("belief", BELIEFS)
@pytest.mark.parametrize("counts", [(0, 4), (1, 3), (0, 8), (1, 6)])
def test_the_need_ends_where_the_prompt_is_given_up(belief, counts):
    rule = PosteriorRule(QUOTA, *belief, min_rate=0.1)
    expected = need_by_recursion(rule, belief, counts)
    assert expected_draws_until_stop(rule, belief, counts) == pytest.approx(expected, rel=1e-9)
