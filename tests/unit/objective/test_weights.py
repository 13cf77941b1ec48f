"""Weights against published sums, and against every order of right and wrong responses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ada_lightning.objective.batch import Group, advantages, group_of, large_batch, token_factors
from ada_lightning.objective.update import (
    Baseline,
    Divisor,
    Filter,
    Keep,
    Missing,
    Reduction,
    Single,
    Spread,
    Truncated,
    Update,
    Visits,
    Whitening,
)
from ada_lightning.objective.weights import (
    PASS_RATES,
    is_mean,
    nearest,
    relative,
    responses,
    share_kept,
    share_signal,
    weight,
)

BY_GROUP = Divisor(Spread.GROUP, 1, 1e-4)
BY_OTHERS = Divisor(Spread.OTHERS, 1, 1e-6)
GOLDEN = {
    "TRL default": (Update(8, divisor=BY_GROUP), None, (1.333, 1.135, 1.0, 1.135, 1.333), 1.7355),
    "TRL, no scale": (Update(8), None, (1.0, 1.0, 1.0, 1.0, 1.0), 0.875),
    "TRL, batch scale": (
        Update(8, divisor=Divisor(Spread.BATCH_REWARDS, 1, 1e-4)),
        (0.5,),
        (1.064, 1.028, 1.0, 1.028, 1.064),
        1.7475,
    ),
    "TRL cispo": (Update(8, divisor=BY_GROUP, gain=0.2), None, (1.333, 1.135, 1.0, 1.135, 1.333), 0.3471),
    "TRL async": (Update(8, divisor=Divisor(Spread.GROUP, 0, 1e-8)), None, (1.333, 1.135, 1, 1.135, 1.333), 1.8557),
    "verl, 16": (Update(16, divisor=Divisor(Spread.GROUP, 1, 1e-6)), None, (1.689, 1.213, 1, 1.213, 1.689), 1.8727),
    "verl rloo": (Update(8, baseline=Baseline.OTHERS_MEAN), None, (1.0, 1.0, 1.0, 1.0, 1.0), 1.0),
    "verl grpo_passk": (
        Update(8, baseline=Baseline.RUNNER_UP, divisor=Divisor(Spread.GROUP, 1, 1e-6)),
        None,
        (89.387, 26.844, 1.0, 0.002, 0.0),
        0.0221,
    ),
    "verl reinforce++ baseline": (Update(8, whitening=Whitening()), (0.5,), (1.134, 1.057, 1, 1.057, 1.134), 1.8067),
    "verl gpg": (Update(8, divisor=Divisor(Spread.REWARDED_SHARE)), (0.5,), (1.569, 1.33, 1, 0.792, 0.716), 1.8666),
    "prime-rl max_rl": (Update(8, divisor=Divisor(Spread.GROUP_MEAN)), None, (3.04, 1.991, 1, 0.63, 0.53), 1.9844),
    "prime-rl pools": (
        Update(8, visits=Visits((0.25, 0.75), (0.2, 1.0, 0.2))),
        None,
        (0.345, 0.41, 1.0, 0.569, 0.36),
        0.5091,
    ),
    "NeMo-RL": (
        Update(8, baseline=Baseline.OTHERS_MEAN, divisor=BY_OTHERS),
        None,
        (0.734, 1.011, 1.0, 1.011, 0.734),
        2.0006,
    ),
    "NeMo-RL, filtered": (
        Update(8, baseline=Baseline.OTHERS_MEAN, divisor=BY_OTHERS, filter=Filter(Keep.ROW_SPREAD, refills=True)),
        None,
        (0.347, 0.861, 1.0, 0.861, 0.347),
        1.9436,
    ),
    "OpenRLHF reinforce_baseline": (
        Update(8, whitening=Whitening(ddof=0)),
        (0.5,),
        (1.134, 1.057, 1.0, 1.057, 1.134),
        1.8659,
    ),
}
"""Update, other prompts of the batch, weights over that of one half, weight of one half. Summed by other code, through
the trainers' own functions."""


@pytest.mark.parametrize("name", GOLDEN)
def test_weights_are_those_of_the_trainers(name):
    update, others, wanted, at_half = GOLDEN[name]
    assert relative(update, others=others) == pytest.approx(wanted, abs=6e-4)
    assert weight(update, 0.5, others=others) == pytest.approx(at_half, abs=6e-5)


UPDATES = [
    Update(4, divisor=BY_GROUP),
    Update(4, baseline=Baseline.LENGTH_MEAN),
    Update(3, baseline=Baseline.OTHERS_MEAN, divisor=BY_OTHERS),
    Update(4, divisor=Divisor(Spread.GROUP_MEAN)),
]


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("pass_rate", [0.1, 0.7])
def test_a_weight_is_the_sum_over_every_order(update, pass_rate):
    total = 0.0
    for outcomes in itertools.product((0.0, 1.0), repeat=update.group_size):
        chance = math.prod(pass_rate if right else 1 - pass_rate for right in outcomes)
        scores = np.array([1 / pass_rate if right else -1 / (1 - pass_rate) for right in outcomes])
        total += chance * float((advantages(update, [Group(outcomes)])[0] * scores).mean())
    assert weight(update, pass_rate) == pytest.approx(total, rel=1e-12)


def test_a_large_batch_is_the_limit_of_large_batches():
    for update in (Update(4, divisor=Divisor(Spread.BATCH_REWARDS)), Update(4, whitening=Whitening(epsilon=0.0))):
        copies = 400
        rest = [group_of(k, 4) for k in range(5) for _ in range(copies * math.comb(4, k))]
        row = advantages(update, [group_of(1, 4), *rest])[0]
        alone = advantages(update, [group_of(1, 4)])[0]
        by_count = [advantages(update, [group_of(k, 4), *rest])[0] for k in range(5)]
        found = sum(math.comb(4, k) * 0.5**4 * (r[:k].sum() - r[k:].sum()) / 0.5 / 4 for k, r in enumerate(by_count))
        assert weight(update, 0.5) == pytest.approx(found, rel=2e-4)
        assert not np.allclose(alone, row)


def test_named_objectives_are_found_exactly():
    assert [nearest(Update(8))[0].name, nearest(Update(8))[0].off] == ["the mean pass rate", pytest.approx(1.0)]
    by_mean = nearest(Update(8, divisor=Divisor(Spread.GROUP_MEAN)))[0]
    assert by_mean.formula == "f'(p) = (1 - (1-p)^7) / p"
    assert by_mean.off == pytest.approx(1.0)
    assert nearest(Update(8, baseline=Baseline.RUNNER_UP))[0].name == "pass@8"
    assert nearest(Update(512, divisor=BY_GROUP))[0].name == "the arcsine"
    assert not is_mean(Update(8, divisor=BY_GROUP))
    assert is_mean(Update(2, divisor=BY_GROUP))  # a pair is always one right and one wrong, or nothing


def test_a_filter_changes_cost_and_no_weight():
    filtered = Update(8, filter=Filter(Keep.SPREAD, refills=True))
    kept = [share_kept(filtered, rate) for rate in PASS_RATES]
    assert kept == pytest.approx([share_signal(filtered, rate) for rate in PASS_RATES])
    assert responses(filtered, 0.05) == pytest.approx(8 / (1 - 0.05**8 - 0.95**8))
    assert relative(filtered) == relative(Update(8))
    assert responses(Update(8, filter=Filter(Keep.SPREAD, refills=False)), 0.05) == 8


def test_rows_that_a_filter_leaves_out_are_a_lone_winner_and_equal_groups():
    update = Update(4, baseline=Baseline.OTHERS_MEAN, divisor=BY_OTHERS, filter=Filter(Keep.ROW_SPREAD, refills=True))
    assert not advantages(update, [group_of(1, 4)])[0].any()
    assert share_kept(update, 0.5) == pytest.approx((4 * 3 + 6 * 4 + 4 * 3) / 16 / 4)


TWO = [Group((1.0, 0.0), (1, 3), (False, True))]
FACTORS = {
    Reduction.RESPONSE_MEAN: (0.25, -1 / 12),
    Reduction.TOKEN_MEAN: (0.125, -0.125),
    Reduction.CONSTANT: (0.025, -0.025),
    Reduction.RESPONSE_SUM: (0.25, -0.25),
    Reduction.TOKEN_SUM: (0.5, -0.5),
    Reduction.PROMPT_MEAN: (0.125, -0.125),
}


@pytest.mark.parametrize("reduction", FACTORS)
def test_a_reduction_gives_each_token_its_factor(reduction):
    assert token_factors(Update(2, reduction=reduction), TWO, width=10)[0] == pytest.approx(FACTORS[reduction])


def test_a_masked_response_leaves_the_divisor_or_stays():
    masked = Update(2, truncated=Truncated.MASKED, reduction=Reduction.RESPONSE_MEAN)
    assert token_factors(masked, TWO)[0].tolist() == [0.5, 0.0]
    stays = Update(2, truncated=Truncated.MASKED, reduction=Reduction.RESPONSE_MEAN, counts_masked=True)
    assert token_factors(stays, TWO)[0].tolist() == [0.25, 0.0]


def test_groups_without_a_signal_leave_the_divisor_or_stay():
    groups = [Group((1.0, 0.0)), Group((1.0, 1.0))]
    assert token_factors(Update(2), groups)[0].tolist() == [0.125, -0.125]
    assert token_factors(Update(2, counts_equal=False), groups)[0].tolist() == [0.25, -0.25]


def test_missing_rewards():
    group = [Group((1.0, 0.0, math.nan))]
    assert advantages(Update(3, missing=Missing.LEFT_OUT), group)[0].tolist() == [0.5, -0.5, 0.0]
    assert advantages(Update(3, missing=Missing.ZERO), group)[0].tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    assert np.isnan(advantages(Update(3, missing=Missing.POISONS), group)[0]).all()


def test_a_group_of_one():
    assert advantages(Update(1, single=Single.RAW), [Group((1.0,))])[0].tolist() == [1.0]
    assert advantages(Update(1), [Group((1.0,))])[0].tolist() == [0.0]


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="at least 1 response"):
        Update(0)
    with pytest.raises(ValueError, match="above 0 and below 1"):
        weight(Update(4), 1.0)
    with pytest.raises(ValueError, match="at most 2"):
        weight(Update(4), 0.5, others=(0.5,) * 3)
    with pytest.raises(ValueError, match="needs a critic"):
        weight(Update(4, undetermined="It needs a critic."), 0.5)


def test_bounds_cut_advantages_before_they_are_whitened():
    group = [group_of(1, 4)]
    assert advantages(Update(4, cut=(0.0, 0.5)), group)[0].tolist() == [0.5, 0.0, 0.0, 0.0]
    whitened = advantages(Update(4, cut=(0.0, 1.0), whitening=Whitening(ddof=0, epsilon=0.0)), group)[0]
    assert (whitened.mean(), whitened.std()) == pytest.approx((0.0, 1.0))
    assert weight(Update(8, cut=(0.0, 1.0)), 0.5) == pytest.approx(0.4375)  # half of 7/8: nothing is pushed down


def test_a_missing_reward_poisons_a_group_that_is_divided_too():
    found = advantages(
        Update(3, divisor=BY_GROUP, missing=Missing.POISONS), [Group((1.0, 0.0, math.nan)), group_of(1, 3)]
    )
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_groups_that_a_filter_drops_count_in_no_divisor_and_no_statistic():
    groups = [Group((1.0, 0.0)), Group((1.0, 1.0))]
    chosen = Filter(Keep.SPREAD, refills=True)
    assert token_factors(Update(2, filter=chosen), groups)[0].tolist() == [0.25, -0.25]
    everything, kept = (large_batch(Update(2, filter=each)).difference_variance for each in (None, chosen))
    assert (everything, kept) == pytest.approx((0.125, 0.25))


def test_a_filter_of_means_that_drops_signal_changes_weights():
    narrow = Update(8, filter=Filter(Keep.MEAN_INSIDE, refills=True, low=0.2, high=0.8))
    assert relative(narrow)[0] < 0.6
