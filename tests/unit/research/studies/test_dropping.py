"""Dropping prompts once: what the measurement spent counts, and the runs are GRPO's but for their prompts."""

import json

import pytest

from research.studies.curves import later
from research.studies.field import dropping, newer, setting
from research.studies.methods import Settings

MEASURED = {"seed-3": {"generated_tokens": 70_000}}


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setattr(dropping, "measured", lambda: MEASURED)


def run(arm, seed=3):
    return dropping.dropping_run(arm, Settings(1e-4, 8), study="runs", seed=seed, points=8)


def test_a_run_is_that_of_grpo_but_for_prompts_and_budget(known):
    grpo = newer.newer_run("runs", newer.GRPO, Settings(1e-4, 8), seed=3, points=8)
    free, counted = (set(run(arm).overrides) for arm in ("free", "counted"))
    assert free - set(grpo.overrides) == {"data.only=runs/field/measured/seed-3"}
    assert set(grpo.overrides) <= free
    assert {each.partition("=")[0] for each in counted ^ free} == {
        "callbacks.budget.max_generated_tokens",
        "callbacks.evaluation.every_n_tokens",
    }
    assert "callbacks.budget.max_generated_tokens=170000" in counted


@pytest.mark.parametrize("arm", dropping.CONTESTS)
def test_a_run_would_start(problem_files, composed, known, arm):
    cfg = composed(run(arm), check=False)  # the check reads what a measurement wrote
    assert cfg.sampler.group_size == 4
    assert cfg.data.only == f"runs/field/measured/{'fresh' if arm == 'once' else 'seed-3'}"
    assert cfg.policy.schedule._target_.endswith("LinearSchedule")


def test_what_is_spent_before_the_first_update_shifts_the_curve():
    curve = [{"generated_tokens": 0.0, "held_out": 0.2}, {"generated_tokens": 5.0, "held_out": 0.3}]
    shifted = later(curve, 3.0)
    assert [(row["generated_tokens"], row["held_out"]) for row in shifted] == [(0.0, 0.2), (3.0, 0.2), (8.0, 0.3)]


def test_committed_runs_have_what_is_left_of_the_budget_and_end_with_it():
    rows = [json.loads(line) for line in (dropping.RESULTS / "runs.jsonl").read_text().splitlines()]
    counted = {row["seed"]: row for row in rows if row["name"].startswith("counted-")}
    assert sorted(counted) == list(setting.second_seeds())
    curves = dropping.runs_of("counted")[dropping.NAMES["counted"]]
    for seed, row in counted.items():
        spent = dropping.measured()[f"seed-{seed}"]["generated_tokens"]
        assert f"callbacks.budget.max_generated_tokens={newer.MAX_TOKENS - spent}" in row["overrides"]
        assert curves[seed][1]["generated_tokens"] == spent
        assert curves[seed][-1]["generated_tokens"] == pytest.approx(
            newer.MAX_TOKENS, rel=0.03
        )  # its last step is whole


def test_a_measurement_keeps_what_was_neither_never_nor_always_right():
    for name, row in dropping.measured().items():
        counts = {int(right): prompts for right, prompts in row["prompts_by_positives"].items()}
        assert sum(counts.values()) == row["num_prompts"], name
        assert row["num_selected"] == sum(prompts for right, prompts in counts.items() if 0 < right < 8)
        assert row["num_samples"] == dropping.NUM_SAMPLES == 8
