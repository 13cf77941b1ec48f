"""Costs of generating and of training add up at a price, beside the group size that is cheapest there."""

import pytest

from research.studies import when_to_use
from research.studies.runs import StudyRun
from research.studies.variance.files import load
from research.studies.when_to_use import GRPO, SHOWN, Case, cases

SPENT = dict(zip(GRPO, [(4.0, 1.0), (2.0, 2.0), (1.0, 4.0)], strict=True)) | {"other": (1.0, 1.0)}


@pytest.mark.parametrize(("price", "cost"), [(0.0, 1.0), (1.0, 2 / 4), (3.0, 4 / 7)])
def test_the_cheapest_group_size_at_each_price_is_what_others_are_measured_by(price, cost):
    assert Case("case", SPENT).cost("other", price) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("generated", "trained", "words"),
    [
        (0.5, 0.5, "always"),
        (9.0, 9.0, "never"),
        (0.5, 2.0, "below 0.5"),  # 0.5 + 2 c against 1 + c
        (2.0, 0.5, "above 2"),
    ],
)
def test_where_it_pays_is_said_in_words(generated, trained, words):
    spent = dict.fromkeys(GRPO, (1.0, 1.0)) | {"other": (generated, trained)}
    assert when_to_use.pays(Case("case", spent), "other") == words


def test_the_models_costs_are_put_back_together_with_what_grpo_trains():
    """Apart from the choice of group size: GRPO with 8 is 1 at every price in the measured figures."""
    found = {case.name: case for case in cases()}
    figures = load("measured")["checkpoints"]["base"]
    rule = "Seq-balance, 2+2 kept, official"
    case = found["SmolLM2, untrained"]
    assert case.spent[GRPO[1]][0] == 1.0
    assert case.spent[GRPO[1]][1] == pytest.approx(figures["trained_over_generated"])
    high = case.spent[rule][1] / case.spent[GRPO[1]][1]
    assert high == pytest.approx(figures["rules"][rule]["trained"][0])


def test_where_training_is_free_costs_are_those_of_the_variance_study():
    """Responses generated for Seq-balance over those for groups of 16, the cheapest: 12.338 and 5.330 in exact.json."""
    found = {case.name: case for case in cases()}["as in Reinforce-Ada"]
    rules = {name: by_mix["step 400"]["generated_cost"] for name, by_mix in load("exact")["rules"].items()}
    rule = "Seq-balance, 2+2 kept, official"
    assert found.cost(rule, 0.0) == pytest.approx(rules[rule] / min(rules[name] for name in GRPO))


@pytest.mark.parametrize("label", SHOWN.values())
def test_every_line_is_what_one_can_run_with_the_numbers_of_the_rule(composed, label):
    experiment, *overrides = label.split()
    cfg = composed(StudyRun("study", experiment, 0, tuple(overrides)))
    rule = next(rule for rule, name in SHOWN.items() if name == label)
    if "Seq" in rule:
        assert (cfg.sampler.samples_per_round, cfg.sampler.n_max, cfg.sampler.group_size) == (4, 32, 4)
    if "4 responses" in rule:
        assert cfg.sampler.group_size == 4
    if "history" in rule:
        assert "HistoryBaseline" in cfg.advantage._target_
