"""Prompts that hints reached, from a prompt log."""

from __future__ import annotations

import pytest

from ada_lightning.analysis.report.hints import draw_hints, read_hints
from ada_lightning.analysis.report.method import group_runs
from ada_lightning.analysis.report.page import make_report
from ada_lightning.analysis.report.prompts import read_visits
from ada_lightning.analysis.report.run import load_run
from ada_lightning.run.run_dir import RunDir
from tests.unit.analysis.report.small_folder import write_run

HEADER = "step,prompt_id,pass_rate,num_drawn,num_sampled,num_positive,hint,num_hints\n"
ROWS = (
    "0,a,0,4,4,0,0,0",
    "0,b,0.5,4,4,2,0,0",
    "0,a#3,0.25,4,4,1,3,4",  # solved with a hint is not solved
    "1,a,0,4,4,0,0,0",
    "1,c,0,4,4,0,0,0",
    "1,a#2,0.5,4,4,2,2,4",
    "1,c#1,0,4,4,0,1,2",
    "1,d#2,,0,0,0,2,3",  # what the policy wrote was refused
    "2,a,0.25,4,4,1,0,0",
    "3,a,0.5,4,4,2,0,0",
)


@pytest.fixture
def folder(tmp_path):
    folder = write_run(tmp_path / "a")
    (folder / "prompts.csv").write_text(HEADER + "\n".join(ROWS) + "\n3,b,0.")
    return folder


def test_prompts_reached_over_the_steps_by_level_and_solved_later(folder):
    found = read_hints(folder)
    assert found.first == {"a": 0, "c": 1}
    assert found.solved == {"a": 2}
    assert found.over_steps().tolist() == [[1, 0], [2, 0], [2, 1], [2, 1]]
    assert found.prompts == [set(), {"a", "c"}, {"a"}, set()]
    assert (found.right, found.total) == ([0, 2, 1, 0], [0, 8, 4, 0])


def test_visits_by_difficulty_are_those_without_a_hint(folder):
    assert len(read_visits(folder)) == 6


def test_a_page_has_both_pictures_where_hints_were_given(folder, tmp_path):
    names = [drawing.name for drawing in make_report(group_runs([load_run(RunDir(folder))]), title="").drawings]
    assert {"hints_over_steps", "hints_by_level"} <= set(names)
    assert draw_hints(group_runs([load_run(RunDir(write_run(tmp_path / "b")))])) == []


def test_a_line_that_cannot_be_read_is_named(folder):
    (folder / "prompts.csv").write_text(HEADER + "0,a#x,0,4,4,0,x,2\n")
    with pytest.raises(ValueError, match=r"prompts\.csv, line 2 cannot be read"):
        read_hints(folder)
