from __future__ import annotations

import itertools

import pytest
from scipy.stats import betabinom

from ada_lightning.stopping import QuotaRule
from ada_lightning.stopping.posterior import PosteriorRule, completion_rate

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


def test_looking_further_than_one_block_finds_prompts_that_need_two():
    wants_four = QuotaRule(k_pos=4, k_neg=1, samples_per_round=2, n_max=16)
    assert completion_rate(wants_four, 1, 1, 0, 2) > 0.02  # one block of 2 cannot bring 4 positives


def test_nothing_is_left_at_the_cap():
    assert completion_rate(QUOTA, 1, 1, 2, 14) == 0.0


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
