from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from ada_lightning.core.prompt_columns import BeliefColumns
from ada_lightning.core.records import Belief
from ada_lightning.methods.published.spo import WeightedDraw
from tests.unit.methods.curriculum.histories import ids, prompts, recalled, seen

RATES = {"p0": 0.5, "p1": 0.1, "p2": 0.02}


def draw(curriculum, *, total=3, num=2, step=0, known=RATES):
    return ids(curriculum.choose(prompts(total), num, step=step, seed=0, recall=recalled(known)))


def test_weights_by_hand():
    curriculum = WeightedDraw()
    assert [curriculum.weight(seen(v, 1e9)) for v in (0.1, 2 / 7.2, 0.5)] == pytest.approx(
        [0.35, 0.4979, 0.55], abs=1e-5
    )
    assert WeightedDraw(gamma=0.5).weight(Belief(2.0, 2.0)) == pytest.approx(0.25 + 0.05)


@pytest.mark.long
def test_pairs_come_as_often_as_drawing_one_after_the_other_without_replacement_gives_them():
    curriculum, num_steps = WeightedDraw(), 6000
    weights = {key: math.sqrt(v * (1 - v)) + 0.05 for key, v in RATES.items()}
    whole = sum(weights.values())
    expected = Counter()
    for first, second in itertools.permutations(weights, 2):
        expected[frozenset((first, second))] += weights[first] / whole * weights[second] / (whole - weights[first])
    found = Counter(frozenset(draw(curriculum, step=step)) for step in range(num_steps))
    for pair, chance in expected.items():
        spread = math.sqrt(chance * (1 - chance) / num_steps)
        assert found[pair] / num_steps == pytest.approx(chance, abs=5 * spread)


def test_the_order_of_a_step_tells_nothing_of_its_weights():
    first = Counter(draw(WeightedDraw(), num=3, step=step)[0] for step in range(3000))
    assert all(abs(number / 3000 - 1 / 3) < 5 * math.sqrt(2 / 9 / 3000) for number in first.values())


def test_prompts_never_seen_can_come_first_and_a_large_step_holds_all():
    known = {f"p{index}": 0.5 for index in range(20)}
    assert set(draw(WeightedDraw(unseen_first=True), total=23, num=3, known=known)) == {"p20", "p21", "p22"}
    assert Counter(draw(WeightedDraw(), num=7)).most_common()[-1][1] == 2  # each of three twice, one thrice


def test_what_it_bends_and_what_it_refuses():
    assert "sqrt(v (1 - v)) / N^0.5 + 0.05" in WeightedDraw(gamma=0.5).caveat()
    with pytest.raises(
        ValueError, match=r"floor must be positive .* got 0; curriculum.gamma must be in \[0, 1\]; got 2"
    ):
        WeightedDraw(floor=0, gamma=2)


@pytest.mark.parametrize("rates", ["spread", "all solved", "one hopeful"])
@pytest.mark.parametrize("count", [0, 1, 500, 3000])
def test_of_many_prompts_those_are_weighed_that_can_win_and_the_draw_is_the_same(rates, count):
    generator, number = np.random.default_rng(0), 20_000
    mean = {"spread": generator.random(number), "all solved": np.full(number, 1 - 1e-12)}.get(
        rates, np.full(number, 1e-12)
    )
    mean[7] = 0.5
    beliefs = BeliefColumns(4 * mean, 4 * (1 - mean), 4 * mean, mean, np.ones(number, dtype=bool))
    curriculum, uniform = WeightedDraw(), generator.random(number)
    keys = np.log(1 - uniform) / (np.sqrt(mean * (1 - mean)) + 0.05)
    assert curriculum._drawn(uniform, beliefs, count).tolist() == np.argsort(-keys)[:count].tolist()
