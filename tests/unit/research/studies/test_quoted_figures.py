"""What the text of pages on runs quotes with an interval stands in one of its tables, so new runs make it red."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[4] / "docs"
TABLES = [DOCS / name for name in ("studies/cost_benefit.md", "studies/real_model.md", "trl.md")]
QUOTING = [*TABLES, DOCS / "when_to_use.md", DOCS / "index.md", DOCS.parent / "README.md"]
_GENERATED = re.compile(r"<!-- table: \w+ -->.*?<!-- end -->", re.DOTALL)
_FIGURE = re.compile(r"[+-]?(\d+\.\d+)\s+\[([+-]?\d+\.\d+), ([+-]?\d+\.\d+)\]")


def figures(text):
    """Values without their sign, since prose says "higher" and "lower", and both ends."""
    return set(_FIGURE.findall(text))


@pytest.mark.parametrize("page", QUOTING, ids=lambda page: page.name)
def test_a_figure_with_an_interval_is_that_of_a_table(page):
    in_tables = set().union(*(figures(found) for file in TABLES for found in _GENERATED.findall(file.read_text())))
    quoted = figures(_GENERATED.sub("", page.read_text()))
    assert quoted, "quotes nothing; take it off the list"
    strange = quoted - in_tables
    assert not strange
