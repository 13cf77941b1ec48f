from __future__ import annotations

import re

import pytest

from research.benchmarks.tables import PAGES, TABLES, filled

SLOW = {"auto_protocol.md", "auto.md", "real_model.md"}
"""Their tables are computed from many runs, which takes ten seconds and more."""


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=[pytest.mark.long] if file.name in SLOW else []) for file in PAGES],
    ids=lambda file: file.name,
)
def test_a_page_shows_what_the_files_say(file):
    """After a benchmark: ``python -m research.benchmarks.tables``."""
    page = file.read_text()
    assert filled(page) == page


def test_every_table_on_the_pages_is_known_and_stands_there_once():
    names = [name for file in PAGES for name in re.findall(r"<!-- table: (\w+) -->", file.read_text())]
    assert len(names) == len(set(names))
    assert set(names) <= set(TABLES)


def test_a_table_is_made_anew():
    page = "before\n<!-- table: cluster_validation -->\nold\n<!-- end -->\nafter\n"
    made = filled(page)
    assert "old" not in made
    assert made.startswith("before\n<!-- table: cluster_validation -->\n| rollout | measured |")
    assert made.endswith("|\n<!-- end -->\nafter\n")


def test_a_table_without_its_file_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("research.benchmarks.tables.RELIABILITY", tmp_path)
    assert "`soak.json` is missing" in filled("<!-- table: soak -->\n<!-- end -->\n")
