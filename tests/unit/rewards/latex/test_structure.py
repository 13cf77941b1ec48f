import time

import pytest

from ada_lightning.rewards.latex.quantity import read_quantity
from ada_lightning.rewards.latex.structure import MAX_ITEMS, read_answer
from ada_lightning.rewards.latex.text import tidy


@pytest.mark.parametrize(
    ("text", "kind", "num_items"),
    [
        ("42", "value", 0),
        ("1,000", "value", 0),
        ("1, 000", "list", 2),
        ("(1,000)", "()", 2),
        ("(5)", "value", 0),
        ("[1,2]", "[]", 2),
        ("(1,2]", "(]", 2),
        (r"\{1\}", "set", 1),
        (r"\{\}", "set", 0),
        (r"\left\{ 1, 2 \right\}", "set", 2),
        (r"\{x | x > 2\}", "value", 0),
        ("1 and 2", "list", 2),
        (r"1 \text{ or } 2, 3", "list", 3),
        (r"\pm 2", "list", 2),
        (r"\{\pm 2, 0\}", "set", 3),
        (r"x \in (1,2)", "()", 2),
        (r"(1,2)\cup(3,4)\cup\{7\}", "union", 3),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "matrix", 2),
        ("no solution", "set", 0),
        ("no change", "words", 0),
        ("red and blue", "list", 2),
        ("2:3:4", "ratio", 3),
        (r"x \equiv 5 \pmod{7}", "residue", 2),
        (r"(\pm 2, 0)", "list", 2),
        (r"\frac12\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "matrix", 2),
        (r"\{1,2\} \cup \{3\}", "set", 3),
        (r"\text{and}", "words", 0),
        ("xy", "value", 0),
        ("(B)", "value", 0),
    ],
)
def test_answers_are_told_apart_by_their_structure(text, kind, num_items):
    answer = read_answer(text)
    assert (answer.kind, len(answer.items)) == (kind, num_items)


@pytest.mark.parametrize("wrap", ["{}", "${}$", "$${}$$", r"\({}\)", r"\[{}\]", " {}. ", r"\({}.\)", "$ {} $."])
def test_wrappers_and_full_stops_do_not_matter(wrap):
    assert tidy(wrap.format(r"\dfrac{1}{2}")) == r"\frac{1}{2}"


def test_two_formulas_in_dollars_are_two_values():
    assert tidy("$2$ or $3$") == "2 or 3"


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (r"5\text{ cm}", "centimeter"),
        ("5 cm", "centimeter"),
        (r"5\,\mathrm{km/h}", "kilometer/hour"),
        (r"5\text{ km per hour}", "kilometer/hour"),
        (r"5\text{ miles}", "mile"),
        (r"5\text{ m}^2", "meter^2"),
        (r"5\text{ square meters}", "meter^2"),
        (r"5^\circ", "degree"),
        ("5\u00b0", "degree"),
        (r"\$5", "dollar"),
        ("5 dollars", "dollar"),
        (r"5 \mathrm{~m} / \mathrm{s}^{2}", "meter/second^2"),
        (r"5\text{ m/s}^2", "meter/second^2"),
        (r"5\text{ N} \cdot \text{m}", "newton meter"),
        ("5 km/h", "kilometer/hour"),
        (r"5\text{ cm squared}", "centimeter^2"),
        ("5 cubic feet", "foot^3"),
        ("\u20ac5", "euro"),
        ("5 \u00a3", "pound sterling"),
        ("5 million dollars", "dollar"),
        (r"5\text{ or 6}", ""),
        (r"5\text{, maybe 6}", ""),
        ("11_2", "base 2"),
        ("5 squared", ""),
        (r"5\text{ squared}", ""),
        (r"5\text{k}", ""),
        (r"5\text{ K}", "kelvin"),
        (r"5\text{ is wrong}", ""),
        ("5 percentages", ""),
        ("5 berries", "berry"),
        ("5 red marbles in total", "red marble"),
        (r"\$5\text{ per hour}", "dollar/hour"),
        ("5m", ""),
        ("5x", ""),
        ("5", ""),
    ],
)
def test_units_have_one_name_and_bare_letters_are_variables(text, unit):
    assert read_quantity(tidy(text)).unit == unit


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + ")" * 500,
        "{" * 1000,
        ("1," * 500)[:-1],
        "1,000" * 200,
        r"\pm" * 300,
        r"\text{" * 150,
        "a" * 999 + "1",
        "a " * 499 + "!1",
        r"\frac" * 200,
        "=" * 1000,
        r"\cup" * 250,
        "%" * 1000,
        "$" * 1000,
        " " * 1000,
        "1 " * 500,
        "^\\circ" * 160,
        r"\begin{pmatrix}" + "&" * 400 + r"\\" * 200 + r"\end{pmatrix}",
        "5" + r" \text{ m}" * 90,
    ],
)
def test_no_text_of_a_thousand_characters_takes_long(text):
    start = time.process_time()
    read_answer(text)
    read_quantity(tidy(text))
    assert time.process_time() - start < 0.5


def test_a_long_list_is_read_up_to_a_limit():
    text = ", ".join(map(str, range(MAX_ITEMS + 1)))
    assert read_answer(text).kind == "value"
    assert len(read_answer(text.rpartition(",")[0]).items) == MAX_ITEMS
