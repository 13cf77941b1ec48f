"""Improvement by difficulty: the bins' luck is no learning, and intervals cover problems and runs."""

import numpy as np
import pytest
from scipy import stats

from research.studies.field import hard
from research.studies.field.tune import Tuned
from tests.unit.research.studies.composing import composed


def test_bins_come_from_one_draw_and_the_start_from_another():
    chosen = np.array([0.0, 0.0, 1 / 16, 2 / 16, 0.25, 0.5])
    before = np.array([0.125, 0.0, 0.25, 0.0, 0.25, 0.75])
    after = {"grpo_n4": {0: before, 1: before}, "ada_n1": {0: before + 0.1, 1: before + 0.3}}
    found = hard.outcomes(chosen, before, after)
    assert [(outcome.low, outcome.high, outcome.num_problems) for outcome in found] == [
        (0.0, 0.0, 2),
        (0.0, 0.125, 2),
        (0.125, 0.5, 2),  # and no bin above one half, where nothing is
    ]
    assert [outcome.before for outcome in found] == pytest.approx([0.0625, 0.125, 0.5])
    for outcome in found:
        gain, lead = outcome.gains["ada_n1"], outcome.leads["ada_n1"]
        low, high = stats.t.interval(0.95, 1, loc=0.2, scale=0.1)  # of two runs; problems gain alike
        assert (gain.value, gain.low, gain.high) == pytest.approx((0.2, low, high))
        assert (lead.value, lead.low, lead.high) == pytest.approx((0.2, low, high))
        assert outcome.leads["grpo_n4"].high == 0


def test_leads_are_taken_with_the_same_seeds():
    before = np.array([0.25, 0.25])
    after = {"grpo_n4": {0: before + 0.5, 1: before}, "ada_n1": {1: before + np.array([0.25, 0.5]), 7: before}}
    (only,) = hard.outcomes(before, before, after)
    assert only.leads["ada_n1"].value == pytest.approx(0.375)
    low, high = stats.t.interval(0.95, 1, loc=0.375, scale=0.125)  # of two problems, where there is one run
    assert (only.leads["ada_n1"].low, only.leads["ada_n1"].high) == pytest.approx((low, high))


@pytest.mark.parametrize("method", hard.CONTESTANTS)
def test_every_run_trains_on_the_selection_alone(problem_files, monkeypatch, tmp_path, method):
    monkeypatch.setattr(hard, "tuned", lambda method, results: Tuned(1e-4, 8, 0.3))
    monkeypatch.setattr(hard, "ROOT", tmp_path)
    monkeypatch.setattr(hard, "POOL", tmp_path / "train.jsonl")
    first, second = hard.hard_runs(method, num_seeds=2)
    assert first.name != second.name
    assert f"data.only=prepared/{hard.PREPARED}" in first.overrides
    plain = [line for line in first.overrides if not line.startswith("data.only=")]
    cfg = composed(hard.StudyRun(first.study, first.method, first.seed, tuple(plain)))
    assert cfg.data.source.path == "train.jsonl"


def test_counts_are_kept_by_model_and_never_mixed_up(tmp_path, monkeypatch):
    monkeypatch.setattr(hard, "HARD", tmp_path)
    drawn = []
    answers = {"prompts": [["b", 8, 16, 0, 0], ["a", 4, 16, 0, 0]]}
    monkeypatch.setattr(hard, "run_program", lambda *command: drawn.append(command))
    monkeypatch.setattr(hard, "counted", lambda folder: answers)
    rates = hard.Rates()
    rates.draw("start", ("a=1",), ("model=pretrained",))
    rates.draw("start", ("a=1",), ("model=pretrained",))
    assert len(drawn) == 1
    assert hard.Rates().of("start").tolist() == [0.25, 0.5]  # by prompt id, whatever order they were drawn in
    with pytest.raises(ValueError, match=r"has start of other settings \(a=1\); remove that line"):
        rates.draw("start", ("a=2",), ("model=pretrained",))
    answers["prompts"][0][0] = "c"
    with pytest.raises(ValueError, match="grpo was drawn on other problems than start"):
        rates.draw("grpo", ("a=1",), ("checkpoint=x",))
    assert not hard.Rates().has("grpo", ("a=1",))
