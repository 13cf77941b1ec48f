"""Readers of ``ada objective`` against the trainers' own functions, where these are installed."""

from __future__ import annotations

import json
import sys

import pytest

from ada_lightning.objective.readers.find import TRAINERS
from ada_lightning.objective.settings import Evidence
from research.objective import check
from research.objective.trl import advantage_code


@pytest.mark.parametrize("name", check.PACKAGES)
def test_what_was_run_is_written_down_and_agrees(name):
    found = json.loads(check.CHECKED.read_text())[name]
    trainer = TRAINERS[name]
    assert found["package"].endswith(f"=={trainer.version}")
    assert trainer.evidence in (Evidence.RUN, Evidence.DATA)
    assert max(max(row["tokens"], row["weights"], row["special"]) for row in found["combinations"]) < check.LIMIT
    for row in found["combinations"]:
        assert row["rounding"] <= max(check.update_of(name, row["settings"]).max_rounding, 1e-6)


@pytest.fixture
def other_trl():
    """Leave this process with the TRL that it had: one of the folders has another version of it."""
    taken = {name: sys.modules.pop(name) for name in _of_trl()}
    advantage_code.cache_clear()
    yield
    advantage_code.cache_clear()
    for name in _of_trl():
        del sys.modules[name]
    sys.modules.update(taken)


def _of_trl():
    return [name for name in sys.modules if name.partition(".")[0] in ("trl", "trl_cgrpo")]


@pytest.mark.usefixtures("other_trl")
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
