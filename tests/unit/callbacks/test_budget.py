import json
import math

import pytest

from ada_lightning.callbacks.budget import Budget
from ada_lightning.callbacks.metrics_csv import MetricsCsv, read_metrics
from ada_lightning.callbacks.summary import Summary
from ada_lightning.run.phase_clock import PhaseClock
from tests.unit.callbacks.small_run import Data

TOKENS_PER_STEP = 10
"""Of the small run: 8 and 2 wasted."""


def steps(folder):
    return json.loads((folder / "summary.json").read_text())["steps"]


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (20, 2), (21, 3), (1000, 6), (math.inf, 6)])
def test_ends_after_the_step_that_spends_the_tokens(fit, tmp_path, capsys, limit, expected):
    fit([Budget(max_generated_tokens=limit), Summary(run_dir=tmp_path)], data=Data(num_steps=6))
    assert steps(tmp_path) == expected
    assert ("budget spent: " in capsys.readouterr().out) == (expected < 6)


def test_is_evaluated_at_its_end_like_any_other(fit, tmp_path):
    fit([Budget(max_generated_tokens=20), Summary(run_dir=tmp_path)], [MetricsCsv(run_dir=tmp_path)], Data(num_steps=6))
    rows = read_metrics(tmp_path / "metrics.csv")
    assert [(row["step"], row["eval/avg_at_4"]) for row in rows if "eval/avg_at_4" in row] == [(0, 0.05), (2, 0.56)]
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "finished"


def test_a_rollout_is_used_up_before_the_end(fit, tmp_path):
    fit([Budget(max_generated_tokens=15), Summary(run_dir=tmp_path)], data=Data(num_steps=6, updates_per_rollout=2))
    figures = json.loads((tmp_path / "summary.json").read_text())
    assert (figures["steps"], figures["policy_version"]) == (2, 4)


def test_seconds_are_those_of_learning(fit, tmp_path, monkeypatch):
    """What an estimator or a sampler computes of the policy too: there they pay for what others pay in responses."""
    spent = {"represent": 15.0, "rollout": 5.0, "gradient_norm": 40.0, "eval": 1000.0, "preview": 1000.0}
    monkeypatch.setattr(PhaseClock, "total_seconds", lambda self: spent)
    for limit, expected in ((60.0, 1), (60.5, 6)):
        budget = Budget(max_seconds=limit)
        fit([budget, Summary(run_dir=tmp_path)], data=Data(num_steps=6))
        assert steps(tmp_path) == expected
        assert budget.state_dict()["seconds"] == 60.0


def test_a_continued_run_has_spent_what_it_had(fit, tmp_path):
    first = Budget(max_generated_tokens=1000)
    fit([first], data=Data(num_steps=3))
    state = json.loads(json.dumps(first.state_dict()))
    assert state["generated_tokens"] == 3 * TOKENS_PER_STEP
    resumed = Budget(max_generated_tokens=50)
    resumed.load_state_dict(state)
    fit([resumed, Summary(run_dir=tmp_path)], data=Data(num_steps=6))
    assert steps(tmp_path) == 2
    assert resumed.state_dict()["seconds"] > state["seconds"]


@pytest.mark.parametrize("name", ["max_generated_tokens", "max_seconds"])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_a_budget_of_nothing_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"callbacks.budget.{name} must be above 0, inf sets no limit; got"):
        Budget(**{name: value})
