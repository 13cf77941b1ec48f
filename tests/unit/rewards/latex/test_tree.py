from fractions import Fraction

import pytest

from ada_lightning.rewards.latex.cost import is_affordable, rational
from ada_lightning.rewards.latex.grammar import MAX_DEPTH, UnreadableError, read
from ada_lightning.rewards.latex.text import tidy
from ada_lightning.rewards.latex.tree import walk


def value(text):
    return rational(read(tidy(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1+2*3", 7),
        ("8/4/2", 1),
        ("2-3-4", -5),
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^3^2", 512),
        ("2^{-1}", Fraction(1, 2)),
        ("2^-1", Fraction(1, 2)),
        ("3!!", 720),
        ("-3!", -6),
        ("2(3+4)", 14),
        ("(1+1)(2+2)", 8),
        (r"2\frac{1}{2}", Fraction(5, 2)),
        (r"2\frac{3}{2}", 3),
        (r"-2\frac{1}{2}", Fraction(-5, 2)),
        (r"\frac{1}{2}\frac{1}{3}", Fraction(1, 6)),
        (r"1/2(4)", Fraction(1, 8)),
        (r"2(\frac{1}{2})", 1),
        (r"(2)\frac{1}{2}", 1),
        (r"2.0\frac{1}{2}", 1),
        (r"\binom{6}{2}", 15),
        (r"\lfloor 7/2 \rfloor", 3),
        (r"\lceil 7/2 \rceil", 4),
        ("|-3|+|2|", 5),
        ("|3-|-5||", 2),
        (r"\left|{-3}\right|", 3),
        ("--3", 3),
        ("+3", 3),
        ("6:4", Fraction(3, 2)),
        ("0^{-1}", None),
        ("1/0", None),
        ("0/0", None),
        ("(-1)!", None),
        ("(1/2)!", None),
    ],
)
def test_arithmetic_has_the_usual_precedence(text, expected):
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1+",
        "(1",
        "1)",
        "1 2",
        "x2",
        "(1)2",
        "{",
        "}",
        r"\frac{1}",
        r"\frac12}",
        r"\unknown",
        r"\sqrt",
        "x_",
        "x_{a.b}",
        "x_{()}",
        "f'",
        "101_2",
        "1,2",
        "a;b",
        "#",
        "'",
        '"',
        "\x00",
        "\ud800",
        "\u0661",
        "\u0430",
        r"\text{}",
        r"\text{__import__}",
        r"\text{a.b}",
        r"\operatorname{eval}(1)",
        "1e5x.y",
        "9" * 401,
        "(" * 30 + "1" + ")" * 30,
        "1" + "/2" * 100,
        "3!!!!!",
        "+".join("1" * 900),
        "2^" * 40 + "2",
        r"\sin" * 40 + "x",
        r"\frac{1}{" * 40 + "2" + "}" * 40,
        "|" * 60 + "1" + "|" * 60,
        "-" * 5000 + "1",
    ],
)
def test_anything_else_is_refused_by_one_kind_of_error(text):
    with pytest.raises(UnreadableError):
        read(text)


def test_every_name_is_of_letters_digits_and_one_underscore():
    def names(tree):
        return (
            {tree[1]}
            if tree[0] == "symbol"
            else {n for part in tree[1:] if isinstance(part, tuple) for n in names(part)}
        )

    texts = ["x", r"\alpha", "x_1", "x_{ab}", r"\text{area}", r"\text{two words}", r"\theta_{0}", "f(x)"]
    found = set().union(*(names(read(text)) for text in texts))
    assert all(name.replace("_", "").isalnum() and name.isascii() for name in found)
    assert len(found) == 8  # f and x among them


def test_chains_of_relations_keep_their_parts():
    tree = read(r"1<x\le 3")
    assert tree[0] == "and"
    assert [part[1] for part in tree[1:]] == ["<", "<="]


def test_reading_takes_time_in_proportion_to_the_length_at_any_depth():
    depth = MAX_DEPTH - 1
    assert len(list(walk(read("(" * depth + "1+x" + ")" * depth)))) == 3


COSTLY = [
    "9^{9^{9^{9}}}",
    "10^{10^{10}}",
    "2^{13000}",
    "(100!)!",
    "100000!",
    r"\binom{10^9}{10^8}",
    "(x+1)^{1000}",
    "(x+1)^{-65}",
    "9^{9^{9\\pi}}",
    r"\exp(\exp(\exp(9)))",
    "e^{e^{e^{x}}}",
    r"\sqrt{2^{600}}",
    r"\sin(10^{1500})",
    r"\lfloor \pi^{4000} \rfloor",
    "(\\pi\\cdot 1000)!",
    "(1+10^{-100})^{10^{30}}",
    "2^{2^{2^{2^{2^{2}}}}}",
    r"\cosh(10^{10})",
]
AFFORDABLE = [
    "2^{1000}",
    "1000!",
    r"\binom{1000}{500}",
    "(x+1)^{20}",
    r"e^{-\frac{(x-\mu)^2}{2\sigma^2}}",
    "e^{100}",
    r"e^{i\pi}",
    "2^{2^{2^{2}}}",
    r"\sqrt{1+\sqrt{2+\sqrt{3}}}",
    "x^{y}",
    "n!",
]


@pytest.mark.parametrize(
    ("text", "cheap"), [*((text, False) for text in COSTLY), *((text, True) for text in AFFORDABLE)]
)
def test_costly_expressions_are_recognised_without_computing_them(text, cheap):
    assert is_affordable(read(tidy(text))) is cheap
