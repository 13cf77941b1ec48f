from __future__ import annotations

from dataclasses import replace

import pytest

from ada_lightning.protocols import SelectionRule
from ada_lightning.selection import AllSelection, BalancedSelection, PositivesSelection, ResolvedSelection
from ada_lightning.stopping import FixedRule, PilotRule
from tests.builders import make_pool

SCREEN = PilotRule((2, 4, 2), is_screen=True)


def kept_indices(selection, pool):
    return [kept.response.sample_index for kept in selection.select(pool)]


def test_positives_keep_the_right_answers_and_nothing_else():
    assert isinstance(PositivesSelection(), SelectionRule)
    assert kept_indices(PositivesSelection(), make_pool([0.0, 1.0, 0.5, 0.9])) == [1, 3]
    assert PositivesSelection().select(make_pool([0.0, 0.0])) == ()
    assert [kept.selection_weight for kept in PositivesSelection().select(make_pool([1.0, 1.0, 0.0]))] == [1.0, 1.0]


def test_a_right_answer_that_may_not_train_leaves_its_weight_to_the_others():
    pool = make_pool([1.0, 1.0, 0.0])
    pool.responses[0] = replace(pool.responses[0], is_masked=True)
    assert kept_indices(PositivesSelection(), pool) == [1]
    assert PositivesSelection().select(pool)[0].selection_weight == 2.0


@pytest.mark.parametrize("inner", [AllSelection(), BalancedSelection(group_size=2)])
def test_only_what_the_pilot_let_go_on_is_left_to_the_inner_selection(inner):
    selection = ResolvedSelection(selection=inner)
    assert isinstance(selection, SelectionRule)
    continued, turned_down = make_pool([1.0, 0.0, 0.0, 1.0]), make_pool([1.0, 1.0])
    continued.rule = turned_down.rule = SCREEN
    assert selection.select(continued) == inner.select(continued) != ()
    assert selection.select(turned_down) == ()
    turned_down.rule = FixedRule(2)
    assert selection.select(turned_down) == inner.select(turned_down)
