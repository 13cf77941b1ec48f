"""The contract of every selection, what chance decides, and those that keep a number of each class."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from ada_lightning.core.records import Belief
from ada_lightning.core.stopping import FixedRule, PilotRule
from ada_lightning.methods.published.cppo import LargestAdvantageBatchSelection, LargestAdvantageSelection
from ada_lightning.methods.published.pilot_commit import ResolvedSelection
from ada_lightning.methods.published.pods import MaxVarianceSelection
from ada_lightning.methods.published.pruning import PruningSelection
from ada_lightning.methods.published.raft import PositivesSelection
from ada_lightning.methods.published.rollout_bandits import BanditSelection
from ada_lightning.methods.selection import (
    AllSelection,
    BalancedSelection,
    QuantileSelection,
    RarerClassSelection,
    StratifiedSelection,
    ThinnedSelection,
)
from tests.builders import make_pool

SELECTIONS = {
    "all": AllSelection(),
    "balanced": BalancedSelection(group_size=4),
    "balanced, random": BalancedSelection(group_size=4, random_order=True),
    "bandit": BanditSelection(group_size=4),
    "largest": LargestAdvantageSelection(rate=0.5),
    "largest of the batch": LargestAdvantageBatchSelection(rate=0.5, normalize_std=True),
    "max variance": MaxVarianceSelection(group_size=4),
    "positives": PositivesSelection(),
    "pruning": PruningSelection(rate=0.5),
    "quantile": QuantileSelection(group_size=4, num_strata=2),
    "rarer": RarerClassSelection(max_per_class=2),
    "resolved": ResolvedSelection(selection=BalancedSelection(group_size=4)),
    "stratified": StratifiedSelection(group_size=4, thresholds=[0.5]),
    "thinned": ThinnedSelection(full_advantage=0.5),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_every_selection_keeps_the_contract(name):
    """Some of what may train, each once, by weights above 0; the same whenever asked; nothing of nothing."""
    selection, pools = SELECTIONS[name], [make_pool([1.0, 0.0, 0.0] * 3), make_pool([0.0] * 4, slot=1), make_pool([])]
    pools[0].responses[0] = replace(pools[0].responses[0], is_masked=True)
    kept = [tuple(group) for group in selection.select_all(pools)]
    assert [tuple(group) for group in selection.select_all(pools)] == kept
    for pool, group in zip(pools, kept, strict=True):
        indices = [each.response.sample_index for each in group]
        assert set(indices) <= {response.sample_index for response in pool.trainable()}
        assert len(set(indices)) == len(indices)
        assert all(each.selection_weight > 0 and each.inverse_probability >= 1 for each in group)
    assert kept[2] == ()
    assert any(kept)
    assert isinstance(selection.caveat(), str)
    assert selection.takes(pools[0])
    selection.learn({})
    selection.load_state_dict(selection.state_dict())
    selection.load_state_dict({})


def weights(kept):
    return [(each.response.sample_index, each.selection_weight) for each in kept]


@pytest.mark.parametrize(
    "selection",
    [
        BalancedSelection(group_size=4),
        BalancedSelection(group_size=4, random_order=True),
        MaxVarianceSelection(group_size=4),
        StratifiedSelection(group_size=4, thresholds=[0.5], random_order=True, seed=5),
    ],
)
def test_weights_restore_the_mix_of_the_pool_masked_responses_included(selection):
    pool = make_pool([1.0] * 3 + [0.0] * 9)
    kept = selection.select(pool)
    assert [each.response.is_positive for each in kept] == [True, True, False, False]
    assert [each.selection_weight for each in kept] == [1.5, 1.5, 4.5, 4.5]
    pool.responses[0] = replace(pool.responses[0], is_masked=True)
    assert [each.selection_weight for each in selection.select(pool)] == [1.5, 1.5, 4.5, 4.5]


@pytest.mark.parametrize(
    ("selection", "rewards", "expected"),
    [
        (AllSelection(), [0, 1, 0], [(0, 1.0), (1, 1.0), (2, 1.0)]),
        (PositivesSelection(), [0, 1, 0, 1], [(1, 1.0), (3, 1.0)]),
        (PositivesSelection(), [0, 0], []),
        (BalancedSelection(group_size=4, seed=1), [0, 1, 0, 1, 1, 0], [(1, 1.5), (3, 1.5), (0, 1.5), (2, 1.5)]),
        (RarerClassSelection(max_per_class=4), [0, 0, 1, 0, 0, 1, 0], [(2, 1.0), (5, 1.0), (0, 2.5), (1, 2.5)]),
    ],
)
def test_the_first_generated_of_each_class_with_the_weight_of_the_class(selection, rewards, expected):
    assert weights(selection.select(make_pool(rewards))) == expected


@pytest.mark.parametrize(
    ("selection", "drawn", "kept"),
    [
        *(
            (BalancedSelection(group_size=4), drawn, kept)
            for drawn, kept in {
                (8, 8): (2, 2), (1, 31): (1, 3), (31, 1): (3, 1), (0, 32): (0, 4), (32, 0): (4, 0), (3, 1): (3, 1),
                (2, 1): (2, 1), (1, 0): (1, 0),
            }.items()
        ),
        *(
            (RarerClassSelection(max_per_class=4), drawn, kept)
            for drawn, kept in {
                (3, 9): (3, 3), (9, 2): (2, 2), (1, 31): (1, 1), (8, 8): (4, 4),
                (0, 32): (0, 4), (32, 0): (4, 0), (0, 2): (0, 2),  # one class: the prompt still counts
            }.items()
        ),
    ],
)  # fmt: skip
def test_how_many_of_each_class_are_kept(selection, drawn, kept):
    """Positives and negatives; for the balanced rule the table of the official code with n = 4."""
    chosen = selection.select(make_pool([0.0] * drawn[1] + [1.0] * drawn[0]))
    assert (sum(k.response.is_positive for k in chosen), sum(not k.response.is_positive for k in chosen)) == kept


def test_a_random_choice_keeps_every_response_of_a_class_equally_often():
    """Four standard deviations of a binomial count."""
    pool, num_seeds, counts = make_pool([1.0] * 5 + [0.0] * 7), 2000, Counter()
    for seed in range(num_seeds):
        kept = BalancedSelection(group_size=5, random_order=True, seed=seed).select(pool)
        indices = [each.response.sample_index for each in kept]
        assert indices[:2] == sorted(indices[:2])  # each class in launch order
        assert indices[2:] == sorted(indices[2:])
        counts.update(indices)
    for index in range(12):
        share = 2 / 5 if index < 5 else 3 / 7
        assert abs(counts[index] - num_seeds * share) < 4 * math.sqrt(num_seeds * share * (1 - share))


@pytest.mark.parametrize(
    ("make", "rewards"),
    [
        (lambda seed: BalancedSelection(group_size=8, random_order=True, seed=seed), [1.0, 0.0] * 20),
        (lambda seed: PruningSelection(rate=0.5, seed=seed), [1.0] + [0.0] * 39),
        (lambda seed: ThinnedSelection(full_advantage=0.3, seed=seed), [1.0] * 4),
    ],
)
def test_what_is_left_to_chance_follows_from_seed_step_slot_and_prompt(make, rewards):
    def drawn(seed=0, first_step=0, slot=0, key=7):
        found = []
        for step in range(first_step, first_step + 20):
            pool = replace(make_pool(rewards, slot=slot, key=key), step=step, belief=Belief(7.0, 1.0))
            found.append([each.response.sample_index for each in make(seed).select(pool)])
        return found

    assert drawn() == drawn()
    assert all(other != drawn() for other in (drawn(seed=1), drawn(first_step=1), drawn(slot=1), drawn(key=8)))


@pytest.mark.parametrize("inner", [AllSelection(), BalancedSelection(group_size=2)])
def test_only_what_the_pilot_let_go_on_is_left_to_the_inner_selection(inner):
    selection = ResolvedSelection(selection=inner)
    continued, turned_down = make_pool([1.0, 0.0, 0.0, 1.0]), make_pool([1.0, 1.0])
    continued.rule = turned_down.rule = PilotRule((2, 4, 2), is_screen=True)
    assert selection.select(continued) == inner.select(continued) != ()
    assert selection.select(turned_down) == ()
    assert (selection.takes(continued), selection.takes(turned_down)) == (True, False)
    assert not ResolvedSelection(selection=selection).takes(turned_down)
    turned_down.rule = FixedRule(2)
    assert selection.select(turned_down) == inner.select(turned_down)
