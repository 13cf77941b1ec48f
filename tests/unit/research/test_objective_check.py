"""Readers of ``ada objective`` against the trainers' own functions, where these are installed."""

from __future__ import annotations

import json
import sys

import pytest

from ada_lightning.objective.readers.find import TRAINERS
from ada_lightning.objective.settings import Evidence
from research.objective import check


@pytest.mark.parametrize("name", check.PACKAGES)
def test_what_was_run_is_written_down_and_agrees(name):
    found = json.loads(check.CHECKED.read_text())[name]
    trainer = TRAINERS[name]
    assert found["package"].endswith(f"=={trainer.version}")
    assert trainer.evidence is Evidence.RUN
    assert max(max(row["tokens"], row["weights"], row["special"]) for row in found["combinations"]) < check.LIMIT
    for row in found["combinations"]:
        assert row["rounding"] <= max(check.update_of(name, row["settings"]).max_rounding, 1e-6)


@pytest.mark.parametrize("name", check.PACKAGES)
def test_a_sample_of_combinations_agrees_with_the_package(name, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder of one trainer is not on the path of another test
    if not check.use_environment(name):
        pytest.skip(f"{check.PACKAGES[name][0]} is not installed: python -m research.objective.check {name}")
    import importlib

    for combination in importlib.import_module(f"research.objective.{name}").combinations()[::7]:
        row = check.compared(name, combination)
        assert max(row["tokens"], row["weights"], row["special"]) < check.LIMIT, row
    assert check.wrong_options(name) == []
