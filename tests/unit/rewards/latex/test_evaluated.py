import pytest

from ada_lightning.rewards.latex.evaluated import is_worked_out, num_open
from ada_lightning.rewards.latex.grammar import read
from ada_lightning.rewards.latex.statement import read_statement
from ada_lightning.rewards.latex.text import tidy


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-5", 0),
        ("--5", 1),
        ("-(-5)", 1),
        (r"2\frac{1}{2}", 0),
        (r"2+\frac{1}{2}", 1),
        (r"\frac{0.5}{2}", 1),
        (r"\frac{7}{0}", 1),
        (r"-1.5 \times 10^{-3}", 0),
        (r"3 \times 10 \times 10^2", 2),
        ("2^{10}", 1),
        ("5!", 1),
        ("1+2+3", 2),
        (r"2\cdot 3+4", 2),
        (r"\sqrt{16+9}", 2),
        (r"\frac{1+\sqrt{5}}{2}", 1),
        (r"2(3\sqrt{2})", 2),
        ("(1+i)(2-i)", 2),
        (r"\sin 60^\circ", 2),
        ("e^2", 2),
        (r"\exp(2)", 2),
    ],
)
def test_open_operations_are_counted(text, number):
    assert num_open(read(tidy(text))) == number


@pytest.mark.parametrize(
    ("gold", "answer", "worked_out"),
    [
        (r"9\pi", r"\pi \cdot 9", True),
        (r"9\pi", r"3^2\pi", False),
        ("1<x", "x>1", True),
        ("x>1", "2x>2", False),
        ("x>1", "x", False),
        ("y=2x+3", "2x-y+3=0", True),
        ("y=2x+3", "2x+3+z-z", False),
        ("x+1", "x+1+0", True),
        ("7", "7+x-x", False),
        ("7", "x=7", False),
    ],
)
def test_an_answer_is_worked_out_as_far_as_the_gold(gold, answer, worked_out):
    assert is_worked_out(read(gold), read(answer)) is worked_out


@pytest.mark.parametrize(
    "text",
    [
        "x = = 5",
        "x >== 5",
        "x =/= 5",
        r"x \not= = 5",
        r"\text{not} = 5",
        "x + = 5",
        r"\text{if } x = 5",
        r"4 \lor x = 5",
        r"\neg x = 5",
    ],
)
def test_an_equality_that_is_taken_back_states_nothing(text):
    assert read_statement(tidy(text)) is None


@pytest.mark.parametrize(
    "text", ["x = 5", "5 = x", "= 5", "x == 5", r"\text{Least value} = 5", "x~=~5", r"\angle ABC = 5", "2+3=5"]
)
def test_a_label_or_a_way_to_the_value_does_not_matter(text):
    assert read_statement(tidy(text)).value == "5"
