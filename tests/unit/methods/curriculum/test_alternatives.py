"""Other rules on the same groups: hand-counted numbers, and means over a binomial."""

from __future__ import annotations

import json
from math import comb

import pytest

from ada_lightning.methods.curriculum.alternatives import Alternatives, rarer_class, yields
from ada_lightning.methods.curriculum.trial import GroupResult
from research.studies.auto_simulation import STORED, STORED_RUN


@pytest.mark.parametrize(
    ("counts", "comparisons", "right_train", "wrong_train"),
    [
        ((1, 3), {"n_2": 0.25, "n_4": 0.75}, 0.25, 0.0),
        ((2, 2), {"n_2": 1 / 3, "n_4": 1.0}, 1 / 6, 1 / 6),
        ((3, 5), {"n_2": 0.267857, "n_4": 0.803571, "n_8": 1.875}, 0.178571, 0.089286),
        ((1, 7), {"n_2": 0.125, "n_4": 0.375, "n_8": 0.875}, 0.125, 0.0),
    ],
)
def test_numbers_counted_by_hand(counts, comparisons, right_train, wrong_train):
    found = yields(*counts, is_hard=True)
    assert {name: found[name].comparisons for name in comparisons} == pytest.approx(comparisons, abs=1e-6)
    assert rarer_class(*counts, trains_right=True) == pytest.approx(right_train, abs=1e-6)
    assert rarer_class(*counts, trains_right=False) == pytest.approx(wrong_train, abs=1e-6)


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.5, 0.9])
def test_means_over_a_binomial_are_those_of_the_law(rate):
    """n responses give (n - 1) p q, one of the rarer class p q^2 or p^2 q; costs are what the rule draws."""
    total, mean = 8, {}
    for right in range(total + 1):
        chance = comb(total, right) * rate**right * (1 - rate) ** (total - right)
        for is_hard in (True, False):
            for name, rule in yields(right, total - right, is_hard=is_hard).items():
                sums = mean.setdefault((name, is_hard), [0.0, 0.0, 0.0])
                for place, value in enumerate((rule.comparisons, rule.generated, rule.trained)):
                    sums[place] += chance * value
    p, q = rate, 1 - rate
    for n in (2, 4, 8):
        mixed = 1 - p**n - q**n
        assert mean[f"n_{n}", True] == pytest.approx([(n - 1) * p * q, n, n * mixed], abs=1e-12)
    assert mean["rarer_class", True] == pytest.approx([p * q * q, 1.0, p], abs=1e-12)
    assert mean["rarer_class", False] == pytest.approx([p * p * q, 1.0, q], abs=1e-12)
    half_mixed = 1 - p**4 - q**4
    assert mean["screened", True][1] == pytest.approx(4 + 4 * half_mixed, abs=1e-12)


def stored_groups():
    run = next(run for line in STORED.read_text().splitlines() if (run := json.loads(line))["name"] == STORED_RUN)
    return [GroupResult(a, n - a, 1.0, 0.0) for step in run["steps"] for _, a, n in step if n == 4]


def test_the_stored_run_has_the_worths_that_were_derived_for_it():
    """All groups of a stored run, without fading: at most 32 a step, so the sums are made by hand here."""
    groups = stored_groups()
    sums = {}
    for group in groups:
        for name, rule in yields(group.num_positive, group.num_negative, is_hard=True).items():
            row = sums.setdefault(name, [0.0, 0.0, 0.0])
            row[:] = [row[0] + rule.comparisons, row[1] + rule.generated, row[2] + rule.trained]
    worth = {
        (name, price): row[0] / (row[1] + price * row[2]) for name, row in sums.items() for price in (0.0, 1.0, 3.0)
    }
    expected = {
        ("n_2", 0.0): 0.0412, ("n_2", 1.0): 0.0354, ("n_2", 3.0): 0.0276,
        ("n_4", 0.0): 0.0618, ("n_4", 1.0): 0.0476, ("n_4", 3.0): 0.0326,
        ("rarer_class", 0.0): 0.0487, ("rarer_class", 1.0): 0.0398, ("rarer_class", 3.0): 0.0292,
    }  # fmt: skip
    assert {key: worth[key] for key in expected} == pytest.approx(expected, abs=6e-5)


def test_advice_needs_groups_and_a_clear_difference():
    alternatives = Alternatives()
    hard = [GroupResult(1, 7, 8.0, 8.0), GroupResult(0, 8, 8.0, 0.0), GroupResult(3, 3, 6.0, 6.0)]
    alternatives.observe(hard * 20, group_size=8, is_hard=[True] * 60)
    assert alternatives.better_rules(3.0, group_size=8) == {}, "40 complete groups are too few"
    alternatives.observe(hard * 20, group_size=8, is_hard=[True] * 60)
    worths = alternatives.worths(3.0)
    better = alternatives.better_rules(3.0, group_size=8)
    assert list(better) == ["rarer_class", "n_4"]
    assert better["rarer_class"] == pytest.approx(worths["rarer_class"] / worths["n_8"])
    again = Alternatives()
    again.load_state_dict(json.loads(json.dumps(alternatives.state_dict())))
    assert again.worths(3.0) == worths
