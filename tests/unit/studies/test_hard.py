"""Improvement by difficulty: the bins' luck is no learning, and intervals cover problems and runs."""

import json

import numpy as np
import pytest

from studies.field import hard
from studies.field.tune import Tuned
from tests.unit.studies.composing import composed


def test_bins_come_from_one_draw_and_the_start_from_another():
    chosen = np.array([0.0, 0.0, 1 / 16, 2 / 16, 0.25, 1.0])
    before = np.array([0.125, 0.0, 0.25, 0.0, 0.25, 0.75])
    runs = [before + 0.1, before + 0.3]
    found = hard.outcomes(chosen, before, {"ada": runs})
    assert [(outcome.low, outcome.high, outcome.num_problems) for outcome in found] == [
        (0.0, 0.0, 2),
        (0.0, 0.125, 2),
        (0.125, 0.5, 1),
        (0.5, 1.0, 1),
    ]
    assert [outcome.before for outcome in found] == pytest.approx([0.0625, 0.125, 0.25, 0.75])
    for outcome in found:
        gain = outcome.gains["ada"]
        assert gain.value == pytest.approx(0.2)
        assert (gain.low, gain.high) == pytest.approx((0.1, 0.3))  # both runs drawn alike


def test_a_bin_without_problems_is_left_out():
    (only,) = hard.outcomes(np.array([0.25]), np.array([0.25]), {})
    assert (only.low, only.high) == (0.125, 0.5)


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


def test_counts_are_kept_by_model(tmp_path, monkeypatch):
    monkeypatch.setattr(hard, "HARD", tmp_path)
    drawn = []
    monkeypatch.setattr(hard, "run_program", lambda *command: drawn.append(command))
    monkeypatch.setattr(hard, "counted", lambda folder: {"prompts": [["b", 8, 16, 0, 0], ["a", 4, 16, 0, 0]]})
    rates = hard.Rates()
    rates.draw("start", "model=pretrained")
    rates.draw("start", "model=pretrained")
    assert len(drawn) == 1
    assert hard.Rates().of("start").tolist() == [0.25, 0.5]  # by prompt id, whatever order they were drawn in
    assert json.loads((tmp_path / "heldout.json").read_text()) == {"start": [4, 8]}
    with pytest.raises(ValueError, match=r"heldout\.json has no draw of the untrained model"):
        hard.found_outcomes()
