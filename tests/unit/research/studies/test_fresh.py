"""Problems that are seen once: there are enough of them, and none of them is held out."""

import json

import pytest

from research.studies.field import fresh, setting
from research.studies.field.setting import METHODS, RUNS
from research.studies.field.tune import Tuned
from research.studies.runs import StudyRun
from tests.unit.research.studies.composing import composed


@pytest.fixture
def place(problem_files, tmp_path, monkeypatch):
    monkeypatch.setattr(fresh, "ROOT", tmp_path)
    monkeypatch.setattr(fresh, "HELDOUT", setting.HELDOUT)
    monkeypatch.setattr(fresh, "PROBLEMS", tmp_path / "fresh.jsonl")
    monkeypatch.setattr(fresh, "FRESH", tmp_path / "results.jsonl")
    monkeypatch.setattr(fresh, "prepare", lambda: None)
    monkeypatch.setattr(fresh, "tuned", lambda method, results: Tuned(1e-4, 8, 0.3))
    return problem_files


def test_every_run_would_start_on_problems_that_are_not_held_out(place):
    fresh.prepare_fresh()
    problems = {json.loads(line)["prompt"] for line in fresh.PROBLEMS.read_text().splitlines()}
    assert len(problems) == fresh.NUM_PROBLEMS
    assert not problems & place
    for runs in fresh.fresh_runs(num_seeds=1).values():
        cfg = composed(runs[0])
        assert cfg.data.source.path == fresh.PROBLEMS.name
        assert cfg.callbacks.budget.max_generated_tokens == fresh.MAX_TOKENS


def test_no_method_can_ask_for_a_problem_twice(place):
    """Curricula pass candidates over; what responses are long is known from the runs where problems come back."""
    fresh.prepare_fresh()
    rows = [json.loads(line) for line in RUNS.read_text().splitlines()]
    shortest = min(row["generated_tokens"] / row["responses"] for row in rows if row["seed"] > 2)
    for runs in fresh.fresh_runs(num_seeds=1).values():
        cfg = composed(runs[0])
        per_prompt = cfg.sampler.get("num_screen") or cfg.sampler.group_size
        passed = fresh.MAX_TOKENS / shortest / per_prompt * cfg.curriculum.get("candidate_ratio", 1.0)
        assert passed < fresh.NUM_PROBLEMS


@pytest.mark.parametrize(
    ("experiment", "method"),
    [("ada_similar", METHODS["ada_similar"]), ("grpo_chosen", METHODS["grpo_chosen_4_updates"])],
)
def test_what_was_compared_is_the_experiment_of_that_name(experiment, method):
    named = composed(StudyRun("x", experiment, 0))
    compared = composed(StudyRun("x", method.experiment, 0, method.settings))
    for part in ("estimator", "curriculum", "sampler", "selection", "advantage", "loss"):
        assert named[part] == compared[part]
