"""The pages of methods list every experiment that ships, and no other; what is compared is compared somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ada_lightning.methods.catalog import names
from research.benchmarks.method_tables import KINDS, shipped

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def rows(page):
    """Cells of the tables of methods, by the family that they stand for."""
    tables = re.findall(r"<!-- table: methods_(\w+) -->\n(.*?)<!-- end -->", page, re.DOTALL)
    return {
        family: [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
        for family, table in tables
    }


def named(rows_):
    return [name for row in rows_ for name in re.findall(r"`(\w+)`", row[0])]


def test_every_experiment_has_one_row():
    families = rows((DOCS / "methods.md").read_text())
    assert sorted(name for each in families.values() for name in named(each)) == names(ROOT / "conf", "experiment")


def test_a_row_links_what_its_methods_need_and_where_they_depart():
    page = (DOCS / "departures.md").read_text()
    sections = re.findall(r"^### (.+)\n\n(\S.*)", page, re.MULTILINE)
    anchors = {heading.replace(", ", "-"): heading.split(", ") for heading, text in sections if text[0] != "#"}
    found = [row for each in rows((DOCS / "methods.md").read_text()).values() for row in each]
    linked = {re.search(r"\(departures\.md#([\w-]+)\)", row[-1])[1]: named([row]) for row in found}
    assert linked == anchors


def test_the_picture_of_a_step_shows_methods_that_there_are_in_their_family():
    families = {family: named(each) for family, each in rows((DOCS / "methods.md").read_text()).items()}
    picture = (DOCS / "stages.svg").read_text()
    shown = [re.findall(r"\w+", line) for line in re.findall(r"monospace\">([\w, ]+)<", picture)]
    of_stages = ("prompts", "responses", "prompts", "training", "update", "update")
    assert len(shown) == len(of_stages)
    for methods, family in zip(shown, of_stages, strict=True):
        assert set(methods) <= set(families[family])
    alt = re.search(r"!\[([^\]]*)\]\(stages\.svg\)", (DOCS / "methods.md").read_text())[1]
    assert [name for methods in shown for name in methods] == [
        name for name in re.findall(r"\w+", alt) if name in {each for members in families.values() for each in members}
    ]


def test_every_experiment_says_what_it_is_compared_with():
    page = (DOCS / "methods_checked.md").read_text()
    kinds = re.findall(
        r"^## ([^\n]+)\n\n.*?<!-- table: checked_(\w+) -->\n(.*?)<!-- end -->", page, re.MULTILINE | re.DOTALL
    )
    assert [re.sub(r"\W+", "_", heading.lower()) for heading, _, _ in kinds] == [kind for _, kind, _ in kinds]
    items = [line for _, _, text in kinds for line in text.splitlines() if line]
    assert sorted(named([item.split(": ") for item in items])) == names(ROOT / "conf", "experiment")
    for item in items:
        file, name = re.fullmatch(r"- .+: .+\. Test: `(unit/[\w/]+\.py)::(test_\w+)`", item).groups()
        assert re.search(rf"^ *def {name}\(", (ROOT / "tests" / file).read_text(), re.MULTILINE), item


@pytest.mark.parametrize("recipe", [each for each in shipped() if each.checked], ids=lambda each: each.name)
def test_a_comparison_is_of_a_kind_that_the_page_explains(recipe):
    assert recipe.checked.against in KINDS
