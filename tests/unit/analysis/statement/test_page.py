"""The first table of ``docs/estimators.md`` says of each setting what the statement of a run says."""

import re
from pathlib import Path

import pytest

from ada_lightning.adapters.core import Core

PAGE = Path(__file__).parents[4] / "docs" / "estimators.md"
ROWS = re.findall(r"^\| `\+experiment=(\w+)([^`]*)` \| (.+) \| (exact|about) \|$", PAGE.read_text(), re.MULTILINE)
LIKE_GRPO = ("nearly the pass rate p", "as `grpo`, for the prompts it chooses")
"""Its limit has a formula; what groups of four follow instead is a table, which a test of its own reads."""


@pytest.mark.parametrize(("name", "more", "followed", "how"), ROWS, ids=[f"{row[0]}{row[1]}" for row in ROWS])
def test_a_setting_follows_what_the_page_says(name, more, followed, how):
    overrides = dict(pair.split("=") for pair in more.split())
    method = Core(name, {"first": "some words", "second": "other words"}, **overrides)
    first, *others = [line for line in method.statement().splitlines() if line.startswith(("update:", "  "))]
    formula = followed.removesuffix(" of the prompts it chooses").replace(", as far as", " as far as")
    plain = first.replace(" (p: pass rate), exactly", "")
    assert ("2 arcsin(sqrt(p))" if followed in LIKE_GRPO else f"f(p) = {formula}") in plain
    assert ("exact" in first) is (how == "exact")
    assert ("chooses" in followed) is any("curriculum:" in line for line in others)


def test_the_table_is_there():
    assert len(ROWS) == 10
