"""The reader of trl-cgrpo: what it makes of configurations, and the ways in which its sampling ends."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from ada_lightning.objective import as_text, objective_card
from ada_lightning.objective.command import card_of
from ada_lightning.objective.readers.trl_cgrpo import LOSS_TYPES, SCORES, drawn, ends
from ada_lightning.objective.settings import SettingError
from ada_lightning.objective.weights import PASS_RATES

ROOT = Path(__file__).resolve().parents[3]
MEASURED = json.loads((ROOT / "docs" / "studies" / "trl" / "cgrpo.json").read_text())["rows"]
"""Of its real trainer with budgets of 2, 4 and 8, after a real calibration: any success stops, or equal answers."""
README = {"output_dir": "x", "budget_grid": [2, 4, 8, 16, 32], "recalibrate_every": 50, "score": "aps"}
"""The example of its README, with the default score."""


def card(**settings):
    return objective_card({"budget_grid": [2, 4, 8], "qhats": [1.0, 1.0, 1.0]} | settings)


def test_its_example_is_read_and_the_thresholds_are_asked_for(tmp_path):
    path = tmp_path / "args.json"
    path.write_text(json.dumps(README))
    found = card_of(path, {})
    assert (found.trainer.name, found.unknown_keys, found.update.group_size) == ("trl_cgrpo", (), 32)
    assert "qhats=[1, 1, 1, 1, 1]" in found.update.undetermined
    assert found.update.batch_prompts == 1
    (remedy,) = found.remedies
    assert remedy.command == "CGRPOConfig(budget_grid=[32], scale_rewards='none', ...)"
    known = card_of(path, {"qhats": [1, 1, 1, 1, 1]})
    assert known.weights == pytest.approx(objective_card(README | {"qhats": [1.0] * 5, "num_generations": 32}).weights)
    assert "A prompt draws" in as_text(known)


@pytest.mark.parametrize("scale", ["none", "group"])
@pytest.mark.parametrize("score", SCORES)
def test_its_weights_are_those_that_were_measured_of_its_trainer(score, scale):
    found = card(score=score, scale_rewards=scale)
    (row,) = [row for row in MEASURED if row["method"] == f"trl-cgrpo, {score}" and row["scale_rewards"] == scale]
    even = row["update"][PASS_RATES.index(0.5)]
    assert found.weights == pytest.approx([value / even for value in row["update"]], rel=1e-5)
    assert found.responses == pytest.approx(row["responses"], rel=1e-9)
    assert not found.is_mean


@pytest.mark.parametrize("thresholds", [(1.0, 1.0, 1.0), (0.5, 0.75, 0.2), (0.4, 0.25, 0.9)])
@pytest.mark.parametrize("score", SCORES)
def test_ends_are_counted_over_all_orders(score, thresholds):
    grid = (2, 4, 7)
    found: Counter[tuple[int, int]] = Counter()
    for order in itertools.product((False, True), repeat=grid[-1]):
        number = drawn(score, grid, thresholds, order)
        found[number, sum(order[:number])] += 2.0 ** (number - grid[-1])
    assert {(end.drawn, end.right): end.orders for end in ends(score, grid, thresholds)} == pytest.approx(found)
    chances = [sum(end.chance(rate) for end in ends(score, grid, thresholds)) for rate in PASS_RATES]
    assert chances == pytest.approx([1.0] * len(PASS_RATES))


def test_one_budget_asks_no_threshold():
    found = objective_card({"budget_grid": [8], "scale_rewards": "none"})
    assert found.is_mean
    assert found.responses == pytest.approx((8, 8, 8, 8, 8))
    assert objective_card({"budget_grid": [8]}).weights == pytest.approx((1.333, 1.135, 1, 1.135, 1.333), abs=6e-4)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_a_level_takes_the_gradient_of_right_responses(loss_type):
    found = card(loss_type=loss_type, delta=0.1, score="first_success")
    is_capped = loss_type in ("dapo", "bnpo")
    assert any("right responses do not train" in note for note in found.update.notes) is is_capped
    assert (found.weight_at_half < card(loss_type=loss_type, score="first_success").weight_at_half) is is_capped
    assert found.remedies[0].changes.get("delta", 0) is (None if is_capped else 0)


def test_a_budget_of_one_never_goes_on_with_aps():
    found = card(budget_grid=[1, 2, 4])
    assert "agrees with itself" in found.update.undetermined
    assert found.remedies


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_type": "dr_grpo"}, "loss_type is 'dr_grpo'; .* one of dapo, bnpo, cispo, vespo"),
        ({"score": "mine"}, "score is 'mine'"),
        ({"budget_grid": [2, 2]}, r"budget_grid is \[2, 2\]; .* different whole numbers"),
        ({"budget_grid": []}, r"budget_grid is \[\]"),
        ({"budget_grid": 8}, "budget_grid is 8; .* 1 numbers"),
        ({"budget_grid": [2, 4096]}, "up to 512 responses"),
        ({"num_generations": 16}, "num_generations is 16; .* the largest budget, 8"),
        ({"delta": 1.5}, "delta is 1.5; .* above 0 and below 1"),
        ({"qhats": [1.0]}, r"qhats is \[1.0\]; .* 3 numbers"),
    ],
)
def test_values_that_it_does_not_take_are_named(settings, message):
    with pytest.raises(SettingError, match=message):
        card(**settings)
