"""``docs/math_grader.md`` says what MathReward says: every answer of its table of rules is graded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ada_lightning.core.records import Completion, Prompt
from ada_lightning.rewards.math import MathReward

PAGE = Path(__file__).parents[3] / "docs" / "math_grader.md"
_ROW = re.compile(r"^\| `(.*?)`.*? \| (.*?) ?\| (.*?) ?\|$", re.MULTILINE)


def rules():
    """Gold, answer and reward of every pair of the page's table of rules."""
    (table,) = re.findall(
        r"^\| gold \| right \| wrong \|\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text("utf-8"), re.MULTILINE
    )
    return [
        (gold, answer, reward)
        for gold, *columns in _ROW.findall(table)
        for reward, cell in zip((1.0, 0.0), columns, strict=True)
        for answer in re.findall(r"`([^`]+)`", cell)
    ]


def test_the_table_is_read_whole():
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| gold | right | wrong |") : text.index("Numbers, lists and sets")]
    golds = {gold for gold, _, _ in rules()}
    assert len(golds) == table.strip().count("\n") - 1
    assert len(rules()) + len(golds) == len(re.findall(r"`[^`]+`", table))


@pytest.mark.parametrize(("gold", "answer", "reward"), rules())
def test_an_answer_of_the_page_is_graded_as_it_says(gold, answer, reward):
    found = MathReward()(Prompt("id", (), {"answer": gold}), Completion(rf"So \boxed{{{answer}}}."))
    assert found.reward == reward
