"""What the text of pages on runs quotes with an interval stands in one of its tables, so new runs make it red."""

import re
from pathlib import Path

import pytest

from research.studies.real_model.compare import decisions

DOCS = Path(__file__).parents[4] / "docs"
STUDIES = ("auto_protocol", "cost_benefit", "controls", "dropping_once", "real_model", "gradient_variance")
TABLES = [*(DOCS / "studies" / f"{name}.md" for name in STUDIES), DOCS / "trl.md"]
QUOTING = [*TABLES, DOCS / "when_to_use.md", DOCS.parent / "README.md"]
_GENERATED = re.compile(r"<!-- table: \w+ -->.*?<!-- end -->", re.DOTALL)
_NAMED = re.compile(r"<!-- table: (\w+) -->.*?<!-- end -->", re.DOTALL)
MAIN = {"does_it_pay", "controls_main", "real_model_main", "variance_main"}
_FIGURE = re.compile(r"[+-]?(\d+\.\d+)\s+\[([+-]?\d+\.\d+), ([+-]?\d+\.\d+)\]")


_DECIDED = re.compile(r"^gpu_arms, (\w+): .* seeds: (.*)$")
_SAID = re.compile(r"^- `(\w+)`[^*]*\*\*(pays|does not pay|open)\*\*", re.MULTILINE)


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


def test_what_the_page_says_of_an_arm_is_what_its_rows_decide():
    decided = dict(found.groups() for line in decisions() if (found := _DECIDED.match(line)))
    page = (DOCS / "studies/real_model.md").read_text()
    said = dict(_SAID.findall(page[page.index("## The other arms, on a GPU") : page.index("## What it took")]))
    assert said == decided
    assert set(said) == {"grpo_chosen_by_spread", "dapo_refill", "ada_similar_thinned", "rarer_class"}


@pytest.mark.parametrize("name", ["does_it_pay", "controls_main", "real_model_main"])
def test_a_main_table_has_the_figures_of_the_detailed_ones(name):
    """They are computed by another command: the same runs, the same comparator."""
    tables = {found[1]: found[0] for file in TABLES for found in _NAMED.finditer(file.read_text())}
    detailed = set().union(*(figures(table) for other, table in tables.items() if other not in MAIN))
    assert figures(tables[name])
    assert figures(tables[name]) <= detailed
