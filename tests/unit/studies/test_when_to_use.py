"""Costs of generating and of training add up at a price, beside the group size that is cheapest there."""

import pytest

from studies import when_to_use
from studies.runs import ROOT
from studies.variance.place import load
from studies.when_to_use import GRPO, SHOWN, Case, cases

SPENT = dict(zip(GRPO, [(4.0, 1.0), (2.0, 2.0), (1.0, 4.0)], strict=True)) | {"other": (1.0, 1.0)}


@pytest.mark.parametrize(("price", "cost"), [(0.0, 1.0), (1.0, 2 / 4), (3.0, 4 / 7)])
def test_the_cheapest_group_size_at_each_price_is_what_others_are_measured_by(price, cost):
    assert Case("case", SPENT).cost("other", price) == pytest.approx(cost)


def test_the_models_costs_are_put_back_together_with_what_grpo_trains():
    """Apart from the choice of group size: GRPO with 8 is 1 at every price in the measured figures."""
    found = {case.name: case for case in cases()}
    figures = load("measured")["checkpoints"]["base"]
    rule = "Seq-balance k=2 / 2+2 / official"
    case = found["SmolLM2, untrained"]
    assert case.spent[GRPO[1]][0] == 1.0
    assert case.spent[GRPO[1]][1] == pytest.approx(
        figures["noise_scale"]["trained"][0] / figures["noise_scale"]["generated"][0]
    )
    high = case.spent[rule][1] / case.spent[GRPO[1]][1]
    assert high == pytest.approx(figures["rules"][rule]["trained"][0])


def test_every_line_is_an_experiment_and_every_case_is_drawn(tmp_path):
    for label in SHOWN.values():
        assert (ROOT / "conf" / "experiment" / f"{label.split(',')[0]}.yaml").exists()
    when_to_use.draw(cases(), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert when_to_use.table().count("\n") == 2 + len(cases()) * len(SHOWN)
