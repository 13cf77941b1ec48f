from __future__ import annotations

import re

from benchmarks.tables import PAGE, TABLES, filled


def test_the_page_shows_what_the_files_say():
    """After a benchmark: ``python -m benchmarks.tables``."""
    page = PAGE.read_text()
    assert filled(page) == page


def test_every_table_on_the_page_is_known_and_stands_there_once():
    names = re.findall(r"<!-- table: (\w+) -->", PAGE.read_text())
    assert len(names) == len(set(names))
    assert set(names) <= set(TABLES)


def test_a_table_is_made_anew():
    page = "before\n<!-- table: cluster_validation -->\nold\n<!-- end -->\nafter\n"
    made = filled(page)
    assert "old" not in made
    assert made.startswith("before\n<!-- table: cluster_validation -->\n| rollout | measured |")
    assert made.endswith("|\n<!-- end -->\nafter\n")
