"""Where the evaluation of a checkpoint lies that another is compared with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ada_lightning.analysis.evaluation import report


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """Finish an evaluation of a checkpoint that is called ``weak``; returns what finds it beside another one."""
    monkeypatch.setattr(report, "resolve_checkpoint", lambda name: SimpleNamespace(label="weak"))

    def finish(sets):
        (tmp_path / f"weak-{sets}").mkdir()
        (tmp_path / f"weak-{sets}" / "results.json").write_text("{}")

    return finish, lambda beside: report.find_evaluation("a checkpoint", tmp_path / beside)


@pytest.mark.parametrize("sets", ["heldout", "math-500", "gsm8k+math-500"])
def test_it_is_found_beside_this_one_whatever_the_sets_are_called(finished, sets):
    finish, find = finished
    finish(sets)
    assert find(f"a-strong-one-{sets}").name == f"weak-{sets}"


def test_a_folder_without_a_dash_is_taken_for_its_sets(finished):
    finish, find = finished
    finish("mine")
    assert find("mine").name == "weak-mine"
    with pytest.raises(ValueError, match=r"no finished evaluation at .*weak-other; finished ones: .*weak-mine"):
        find("other")


def test_one_of_other_sets_is_none(finished):
    finish, find = finished
    finish("math-500")
    with pytest.raises(ValueError, match=r"no finished evaluation at .*weak-heldout; finished ones: .*weak-math-500"):
        find("strong-heldout")
