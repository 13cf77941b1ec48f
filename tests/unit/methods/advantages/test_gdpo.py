"""GDPO against a loop in numpy, its degenerate cases, and what it says where components are missing."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from ada_lightning.core.records import KeptResponse, ResponseGroup
from ada_lightning.methods.advantages import GroupNormalizedAdvantage
from ada_lightning.methods.published.gdpo import GdpoAdvantage
from tests.builders import assigned, make_group, make_pool, weighed

WEIGHTS = {"correct": 1.0, "format": 0.5}


def group(*components, key=7, rewards=None, num_tokens=None):
    """A group with these components; its rewards are their sums unless they are given."""
    totals = rewards or [sum(named.values()) for named in components]
    pool = make_pool(totals, key=key, num_tokens=num_tokens)
    pool.responses = [replace(r, components=named) for r, named in zip(pool.responses, components, strict=True)]
    return ResponseGroup(pool, tuple(KeptResponse(response, 1.0) for response in pool.responses))


def parts(correct, format):
    return {"correct": float(correct), "format": float(format)}


def in_numpy(groups, weights, *, by_tokens=False):
    sums, tokens = [], []
    for each in groups:
        total = np.zeros(len(each.kept))
        for name, weight in weights.items():
            values = np.array([kept.response.components[name] for kept in each.kept])
            std = values.std(ddof=1) if len(values) > 1 else 0.0
            total += weight * (values - values.mean()) / (std + 1e-4)
        sums.append(total)
        tokens.append([len(kept.response.response_ids) for kept in each.kept])
    flat = np.concatenate(sums)
    counted = np.repeat(flat, np.concatenate(tokens)) if by_tokens else flat
    return [(total - counted.mean()) / (counted.std(ddof=1) + 1e-4) for total in sums]


@pytest.mark.parametrize("by_tokens", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_loop_of_the_paper(seed, by_tokens):
    generator = random.Random(seed)
    groups = []
    for key in range(6):
        size = generator.randrange(2, 7)  # ragged
        rows = [parts(generator.random() < 0.4, round(generator.random(), 2)) for _ in range(size)]
        groups.append(group(*rows, key=key, num_tokens=[generator.randrange(1, 9) for _ in rows]))
    found = GdpoAdvantage(weights=WEIGHTS, by_tokens=by_tokens).assign(groups)
    for row, expected in zip(found, in_numpy(groups, WEIGHTS, by_tokens=by_tokens), strict=True):
        assert row == pytest.approx(expected.tolist(), rel=1e-9, abs=1e-9)


def test_equal_totals_with_other_components_train():
    """1 + 0 and 0 + 1: GRPO sees nothing here; components of unequal weight tell them apart."""
    equal = group(parts(1, 0), parts(0, 1), parts(1, 0), parts(0, 1))
    assert not equal.has_signal
    (found,) = weighed(GdpoAdvantage(weights=WEIGHTS), [equal])
    assert found.has_signal
    advantages = [kept.advantage for kept in found.kept]
    assert advantages[0] == advantages[2] == -advantages[1] == -advantages[3] > 0.5


def test_mixes_that_grpo_collapses_stay_apart():
    """Section 2 of the paper: rewards (0, 1) and (0, 2) have one advantage in GRPO, and two here."""
    low, high = (group(parts(0, 0), parts(*top), key=key) for key, top in ((1, (0, 1)), (2, (1, 1))))
    rewards = [assigned(GroupNormalizedAdvantage(), each).tolist() for each in (low, high)]
    assert rewards[0] == pytest.approx(rewards[1], rel=1e-5)
    found = GdpoAdvantage(weights={"correct": 1.0, "format": 1.0}).assign([low, high])
    assert found[1][1] == pytest.approx(2 * found[0][1])


def test_groups_without_any_difference_have_none():
    groups = [group(parts(1, 0), parts(0, 1)), group(parts(1, 1), parts(1, 1), parts(1, 1)), group(parts(0, 1))]
    found = weighed(GdpoAdvantage(weights=WEIGHTS), groups)
    assert [each.has_signal for each in found] == [True, False, False]


def test_a_component_that_does_not_apply_to_a_prompt_adds_nothing_to_it():
    with_both = group(parts(1, 0), parts(0, 1), key=1)
    with_one = group({"format": 0.0}, {"format": 1.0}, key=2)
    found = GdpoAdvantage(weights=WEIGHTS).assign([with_both, with_one])
    assert found[1][1] == pytest.approx(-found[1][0])
    assert found[1][1] > 0


def test_a_response_counted_as_zero_ungraded_has_components_of_zero():
    """A failed grade or a cut response: no components, reward 0."""
    failed = group(parts(1, 1), {}, rewards=[2.0, 0.0])
    graded = group(parts(1, 1), parts(0, 0))
    rule = GdpoAdvantage(weights=WEIGHTS)
    assert rule.assign([failed]) == rule.assign([graded])


def test_a_response_that_lacks_a_component_is_named():
    rule = GdpoAdvantage(weights=WEIGHTS)
    with pytest.raises(ValueError, match=r"response 1 of prompt p7 has no component format; it has correct. Use a rew"):
        rule.assign([group(parts(1, 1), {"correct": 0.0})])
    with pytest.raises(ValueError, match="response 0 of prompt p7 has no component correct, format; it has none"):
        rule.assign([make_group([1.0, 0.0])])
    with pytest.raises(ValueError, match="has no component correct, format; it has length"):
        rule.assign([group({"length": 1.0}, {"length": 0.0})])


def test_a_name_that_no_response_has_is_warned_of():
    rule = GdpoAdvantage(weights={"correct": 1.0, "fromat": 1.0})
    with pytest.warns(RuntimeWarning, match="has the component fromat of advantage.weights.*found: correct, format"):
        rule.assign([group(parts(1, 0), parts(0, 1))])
