from __future__ import annotations

import pytest

from ada_lightning.core.stopping import FixedRule, PilotRule
from ada_lightning.methods.selection import AllSelection, BalancedSelection, ResolvedSelection
from tests.builders import make_pool

SCREEN = PilotRule((2, 4, 2), is_screen=True)


@pytest.mark.parametrize("inner", [AllSelection(), BalancedSelection(group_size=2)])
def test_only_what_the_pilot_let_go_on_is_left_to_the_inner_selection(inner):
    selection = ResolvedSelection(selection=inner)
    continued, turned_down = make_pool([1.0, 0.0, 0.0, 1.0]), make_pool([1.0, 1.0])
    continued.rule = turned_down.rule = SCREEN
    assert selection.select(continued) == inner.select(continued) != ()
    assert selection.select(turned_down) == ()
    assert (selection.takes(continued), selection.takes(turned_down)) == (True, False)
    assert not ResolvedSelection(selection=selection).takes(turned_down)
    turned_down.rule = FixedRule(2)
    assert selection.select(turned_down) == inner.select(turned_down)
