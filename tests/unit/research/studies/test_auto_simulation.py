"""The simulation of ``experiment=auto``: small enough to run, and its committed rows hold what is promised."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ada_lightning.methods.curriculum.trial import LONGEST_TRIAL, Trial
from research.studies import auto_simulation
from research.studies.auto_simulation import CONTROL, FILE, Case, cases, groups, law_of, stream, summary


def test_streams_without_a_difference_seldom_choose():
    """By the committed rows: at most 5 % of 1,000 streams, plus what 1,000 draws can be above it."""
    rows = [row for row in json.loads(FILE.read_text())["cases"].values() if row["name"].startswith("no difference")]
    assert len(rows) == 4
    for row in rows:
        assert row["streams"] == 1000
        assert row["ever_chosen"] <= 50
        assert row["gains"]["400"]["worst_5_percent"] > 0.97


def test_what_pays_is_found_and_what_does_not_costs_little():
    rows = json.loads(FILE.read_text())["cases"]
    for cost_ratio, gains in ((1, (1.2, 1.45)), (3, (1.1, 1.25))):
        for share, least in zip(("43 %", "56 %"), gains, strict=True):
            row = rows[f"{share}, cost ratio {cost_ratio}"]
            assert row["ever_chosen"] == row["streams"]
            assert least < row["gains"]["40"]["mean"] < row["always"]
        for share in ("0 %", "20 %"):
            assert rows[f"{share}, cost ratio {cost_ratio}"]["gains"]["400"]["worst_5_percent"] > 0.95


def test_the_page_shows_every_row(monkeypatch, tmp_path):
    assert auto_simulation.table().count("\n") == len(cases(5)) + 2


def test_groups_follow_the_law_that_they_are_to_follow():
    drawn = groups(20_000, 0.43, np.random.default_rng(0))
    assert sum(0 < group.num_positive < 4 for group in drawn) / 20_000 == pytest.approx(0.43, abs=0.015)
    assert law_of(CONTROL).sum() == pytest.approx(1.0)
    mean = sum(group.generated for group in drawn) / 20_000
    assert mean == pytest.approx(208, abs=3)


def test_a_small_run_decides_as_the_product_does():
    case = Case("56 %", 1.0, 1, lambda step: 0.56)
    found = stream(case, seed=0, steps=40)
    assert found["first_chosen"] is not None
    assert found["gains"]["40"] > 1.2
    told = summary(case, [found])
    assert told["always"] == pytest.approx(1.5556, abs=1e-4)
    assert told["share"]["chosen"] > 0.5


def test_it_goes_on_from_the_cases_that_are_there(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(auto_simulation, "FILE", tmp_path / "auto" / "simulation.json")
    auto_simulation.run(5, 40)
    first = capsys.readouterr().out
    assert first.count("\n") == len(cases(5))
    auto_simulation.run(5, 40)
    assert capsys.readouterr().out == ""


def test_the_trial_ends_before_a_run_of_the_study_would_not():
    assert Trial().num_control(32) == 16
    assert LONGEST_TRIAL == 96
