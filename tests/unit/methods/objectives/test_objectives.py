from __future__ import annotations

import numpy as np
import pytest

from ada_lightning.core.stopping import CappedRule, FixedRule, QuotaRule
from ada_lightning.core.stopping.paths import end_probability, ends
from ada_lightning.core.stopping.posterior import PosteriorRule
from ada_lightning.methods.objectives import (
    LinearObjective,
    LogitObjective,
    LogObjective,
    PassAtKObjective,
    PowerObjective,
)
from ada_lightning.methods.objectives.support import (
    UnsupportedObjectiveError,
    check_supported,
    coefficient_table,
    supported_terms,
    supported_weight,
)

BALANCE = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
POSITIVE = QuotaRule(k_pos=1, k_neg=0, samples_per_round=4, n_max=32)
OBJECTIVES = [
    LinearObjective(),
    LogObjective(),
    PowerObjective(0.5),
    PowerObjective(1.0),
    PassAtKObjective(1),
    PassAtKObjective(8),
    LogitObjective(),
]
GOLDEN = {(2, 2): (1 / 3, 0.5), (2, 6): (2 / 11, 9 / 11), (6, 2): (2 / 11, 2 / 11), (2, 10): (2 / 19, 17 / 19)}
GOLDEN |= {(2, 30): (0.03390, 0.96610), (1, 31): (0.03125, 0.96875), (31, 1): (0.03125, 0.03125)}


def expected_factor(objective, rule, pass_rate):
    """``E[c] / (p q)`` by an exact sum over ends."""
    table = coefficient_table(objective, rule)
    total = sum(end_probability(rule, end, pass_rate) * table[end] for end in ends(rule))
    return total / (pass_rate * (1 - pass_rate))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda objective: objective.formula())
class TestEveryObjective:
    def test_weight_is_the_derivative_of_value(self, objective):
        """By a complex step, which has no rounding of differences."""
        pass_rate = np.linspace(0.05, 0.95, 19)
        derivative = objective.value(pass_rate + 1e-30j).imag / 1e-30
        assert objective.weight(pass_rate) == pytest.approx(derivative, rel=1e-10, abs=1e-12)

    def test_terms_add_up_to_the_weight(self, objective):
        """400 terms leave 0.9^400 = 5e-19 of the slowest series at p = .1."""
        for pass_rate in (0.1, 0.5, 0.9):
            assert all(min(point) == 1 for point in objective.terms(32))  # both classes
            total = sum(b * pass_rate**i * (1 - pass_rate) ** j for (i, j), b in objective.terms(400).items())
            wanted = float(objective.weight(np.asarray(pass_rate)))
            assert total / (pass_rate * (1 - pass_rate)) == pytest.approx(wanted, rel=1e-9)

    @pytest.mark.parametrize(
        "rule",
        [
            BALANCE,
            POSITIVE,
            QuotaRule(2, 2, 8, 32),
            QuotaRule(3, 1, 2, 10),
            FixedRule(9),
            CappedRule(BALANCE, 17),
            PosteriorRule(BALANCE, 1.0, 4.0, 0.05),
        ],
        ids=repr,
    )
    def test_the_expected_update_is_exact(self, objective, rule):
        for pass_rate in (0.02, 0.3, 0.9):
            wanted = supported_weight(objective, rule, pass_rate)
            assert expected_factor(objective, rule, pass_rate) == pytest.approx(wanted, rel=1e-9)

    def test_equal_objectives_share_their_tables(self, objective):
        assert hash(objective) == hash(type(objective)(**vars(objective)))


@pytest.mark.parametrize("end", GOLDEN)
def test_golden_coefficients(end):
    """Reference table, five decimals; also fractions where they are known."""
    linear, log = GOLDEN[end]
    assert round(float(coefficient_table(LinearObjective(), BALANCE)[end]), 5) == round(linear, 5)
    assert round(float(coefficient_table(LogObjective(), BALANCE)[end]), 5) == round(log, 5)


@pytest.mark.parametrize("rule", [BALANCE, POSITIVE], ids=["balance", "pos"])
def test_the_logarithm_is_solving_within_all_but_one_try(rule):
    """Figures of the reference, four decimals."""
    known = {0.02: 23.2713, 0.05: 15.9219, 0.1: 9.6185, 0.2: 4.9950, 0.5: 2.0, 0.8: 1.25, 0.95: 1.0526}
    for pass_rate, expected in known.items():
        factor = expected_factor(LogObjective(), rule, pass_rate)
        assert round(factor, 4) == expected
        assert factor == pytest.approx((1 - (1 - pass_rate) ** 31) / pass_rate, rel=1e-12)
        assert expected_factor(LinearObjective(), rule, pass_rate) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_fixed_number_of_draws_gives_the_known_estimators(size):
    """Linear: P Q / (N (N-1)), RLOO. Log: Q / N where P >= 1, MaxRL."""
    linear = coefficient_table(LinearObjective(), FixedRule(size))
    log = coefficient_table(LogObjective(), FixedRule(size))
    for positives in range(size + 1):
        negatives = size - positives
        assert linear[positives, negatives] == pytest.approx(positives * negatives / (size * (size - 1)), abs=1e-15)
        assert log[positives, negatives] == pytest.approx(negatives / size if positives else 0.0, abs=1e-15)


@pytest.mark.parametrize("objective", [LinearObjective(), LogObjective()], ids=["linear", "log"])
@pytest.mark.parametrize(
    "rule",
    [BALANCE, POSITIVE, PosteriorRule(BALANCE, 0.25, 8.0, 0.05), FixedRule(16)],
    ids=lambda rule: repr(rule)[:30],
)
def test_coefficients_stay_within_one(objective, rule):
    table = coefficient_table(objective, rule)
    assert table.min() >= 0
    assert table.max() <= 1 + 1e-12
    assert all(table[end] == 0 for end in ends(rule) if 0 in end)


def test_a_rule_that_gives_up_follows_the_shorter_series():
    """The reference's example: a stop at (0, 8) leaves (1 - q^7) / p and coefficients within 1."""

    class StopsAtEight(QuotaRule):
        def stops(self, num_positive, num_negative):
            return (num_positive, num_negative) == (0, 8) or QuotaRule.stops(self, num_positive, num_negative)

    rule = StopsAtEight(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
    assert len(supported_terms(LogObjective(), rule)) == 7
    assert supported_weight(LogObjective(), rule, 0.1) == pytest.approx((1 - 0.9**7) / 0.1)
    assert expected_factor(LogObjective(), rule, 0.1) == pytest.approx((1 - 0.9**7) / 0.1)
    assert coefficient_table(LogObjective(), rule).max() <= 1


def test_an_objective_beyond_the_budget_is_refused():
    with pytest.raises(UnsupportedObjectiveError, match=r"cannot support .*\^64: its first term needs 65 responses"):
        check_supported(PassAtKObjective(64), BALANCE)
    check_supported(PassAtKObjective(31), BALANCE)
