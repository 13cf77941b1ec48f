"""Answers that a person judges at a glance: wrong ones that look right, and right ones in many forms.

Unlike the hostile families they are systematic: gold answers times ways to write. Policies find the wrong ones by
themselves: the question copied as the answer, two answers at once, a right number that is taken back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from research.benchmarks.attack.families import Case

Judged = tuple[str, str, float]
"""Gold, answer, reward."""

_SMALL = ("two", "three", "four", "five", "six", "seven", "nine", "ten", "half", "third")
_AFTER = (
    "squared", "cubed", "factorial", "divided by {w}", "times {w}", "plus {w}", "minus {w}", "{w}", "thirds",
    "halves", "quarters",
    "tenths", "dozen", "hundred", "thousand", "thousands", "million", "maybe {w}", "or maybe {w}", "or {n}",
    "or so", "percentages",
    "in base {w}", "to the {w}", "over {w}", "mod {w}", "more or less", "point {w}", "less {w}", "if not {n}",
    "but not sure", "is wrong",
    "is not the answer", "at most", "at least", "k", "wrong", "false", "approximately", "plus or minus {w}",
    "and a half", "-ish",
    "-ish plus one", "x", "xy", "abc", "degrees of {w}", "choose {w}", "to {n}", "through {n}", "not", "no", "or not",
    "percent off", "squared minus {w}", "root", "mod", "doubled", "reversed", "inverse", "negative", "billion",
    "twice", "st power",
)  # fmt: skip
_UNITS = (
    "eggs", "apples", "cookies", "students", "people", "children", "cm", "km", "kg", "miles", "hours", "minutes",
    "days", "years",
    "dollars", "cents", "meters", "metres", "centimetres", "square feet", "cubic inches", "square meters", "km/h",
    "miles per hour",
    "liters", "litres", "degrees", "units", "points", "ways", "boxes", "berries", "women", "chocolate chip cookies",
    "red marbles",
    "more apples", "books", "inches", "feet", "feet tall", "years old", "apples left", "in total", "total", "weeks",
    "dogs", "pounds",
)  # fmt: skip


def copied_questions(rng: random.Random) -> Judged:
    """An operation on numbers in place of its result."""
    a, b = rng.randint(11, 99), rng.randint(2, 99)  # 10^2 is a number as people write it
    n = rng.randint(2, 9)
    operation, value = rng.choice(
        [
            ("{a}+{b}", a + b), ("{a} + {b}", a + b), ("{a}-{b}", a - b), (r"{a} \times {b}", a * b),
            (r"{a}\cdot{b}", a * b), ("{a}*{b}", a * b), ("{a}({b})", a * b), ("({a})({b})", a * b),
            ("{c}/{b}", a), (r"{c} \div {b}", a), (r"\frac{{{c}}}{{{b}}}", a), ("{n}^2", n * n),
            ("{n}^{{3}}", n**3), ("{n}\u00b2", n * n), (r"\sqrt{{{s}}}", n), ("5!", 120),
            (r"\binom{{{n}}}{{2}}", n * (n - 1) // 2), ("-(-{a})", a), ("--{a}", a), ("|-{a}|", a),
            ("{a}+{b}+{n}", a + b + n), ("({a}+{b})-{n}", a + b - n), ("{a}+0", a), ("{a}+{b}-{b}", a),
            (r"{a}\cdot 1", a), ("{a}^1", a), (r"\lfloor {a}.5 \rfloor", a), (r"\log_2 {p}", n),
            (r"{a}+x-x", a), (r"{a}\cdot\frac{{x}}{{x}}", a), ("{a} dozen", 12 * a),
            (r"{a} \text{{ dozen}}", 12 * a), (r"\frac{{{a}}}{{2}}+\frac{{{a}}}{{2}}", a), (r"{a}e^{{0}}", a),
            (r"{a}\sin^2 x+{a}\cos^2 x", a),
        ]
    )  # fmt: skip
    text = operation.format(a=a, b=b, c=a * b, n=n, s=n * n, p=2**n)
    wrap = rng.choice(["{}", "${}$", "x = {}", "({})", r"\text{{Total}} = {}", "{} \\text{{ cm}}", r"\$ {}"])
    if "dozen" in text:
        wrap = "{}"
    return str(value), wrap.format(text), 0.0


def copied_equations(rng: random.Random) -> Judged:
    """A task with a solution, a root or a constant, which is not carried out."""
    a, b = rng.randint(11, 30), rng.randint(2, 30)
    return rng.choice(
        [
            (f"x={a}", f"x+{b}={a + b}", 0.0),
            (
                f"{a}",
                rng.choice(["2x={n}", "x+y={n}", "{n}=3x", "x^2+1={n}", "3+x={n}", "x^2+y^2={n}"]).format(n=a),
                0.0,
            ),
            ("0", f"x^2-{a * a}=0", 0.0),
            (f"x={a}, y={b}", f"{b}, {a}", float(a == b)),
            (f"x={a}", f"{b}x={a * b}", 0.0),
            (f"x={a}", f"x-{a}=0", 0.0),
            (f"x>{a}", f"{b}x>{a * b}", 0.0),
            (f"x>{a}", f"x+{b}>{a + b}", 0.0),
            (r"3\sqrt{2}", r"\sqrt{8}+\sqrt{2}", 0.0),
            (r"72\sqrt{2}", r"\sqrt{54}\cdot\sqrt{32}\cdot\sqrt{6}", 0.0),
            (r"3+2\sqrt{2}", r"(1+\sqrt{2})^2", 0.0),
            ("3+4i", "(2+i)^2", 0.0),
            ("3+i", "(1+i)(2-i)", 0.0),
            (rf"{a * a}\pi", rf"{a}^2\pi", 0.0),
            (rf"{a + b}\pi", rf"{a}\pi+{b}\pi", 0.0),
            (rf"{a * b}\pi", rf"{a}\cdot{b}\pi", 0.0),
            (r"\frac{\sqrt{3}}{2}", r"\sin 60^\circ", 0.0),
            (r"\frac{1}{2}", r"\cos\frac{\pi}{3}", 0.0),
            (f"({a},{b})", f"({a + 1}-1,{b})", 0.0),
            (f"{a + b},{a}", f"{a}+{b},{a}", 0.0),
        ]
    )


def words_after_a_number(rng: random.Random) -> Judged:
    """A right number, and words that make it another or doubtful."""
    n = rng.randint(2, 500)
    words = rng.choice(_AFTER).format(w=rng.choice(_SMALL), n=n + 1)
    joint = "" if words.startswith("-") else " "
    form = rng.choice(
        [
            "{n}{j}{w}",
            "{n}\\text{{{j}{w}}}",
            "{n} \\text{{ {w}}}",
            "\\text{{{n}{j}{w}}}",
            "\\${n}{j}{w}",
            "x = {n}{j}{w}",
        ]
    )
    return str(n), form.format(n=n, j=joint, w=words), 0.0


def not_equal(rng: random.Random) -> Judged:
    """The right number after a sign or a word that says it is not."""
    n = rng.randint(2, 500)
    sign = rng.choice(
        [r"\not=", r"\not =", "=/=", r"\neq", r"\ne", "!=", "!==", r"\neq =", r"\ne=", ">==", "<==", ">=", "<",
        r"\le", r"\approx =",
         "<>", "\u2260", "\u2260 =", "~=", "=!", "=<", "= <", "= not", r"= \text{not}", r"\not\approx", "=/",
         r"=\not", "= >", "==!"]
    )  # fmt: skip
    before = rng.choice(["x", "x ", "y", r"\text{answer}", "f(x)", "2x", "x+1"])
    whole = rng.choice(
        [f"{before} {sign} {n}"] * 3
        + [
            rf"\text{{not}} = {n}",
            f"not = {n}",
            f"not {n}",
            rf"\text{{not }} {n}",
            rf"\neg {n}",
            rf"\neq {n}",
            f"= -{n}",
            f"x = = {n}",
        ]
        + [
            rf"\text{{less than}} = {n}",
            f"not x = {n}",
            rf"\text{{anything but}} {n}",
            rf"\lnot x = {n}",
            f"{n + 1} = {n}",
        ]
        + [
            f"x = {n + 1} = {n}",
            rf"{n} \neq x",
            rf"\text{{opposite}} = {n}",
            rf"{n}\text{{ not}}",
            rf"{n} \text{{ or less}}",
        ]
    )
    return str(n), whole, 0.0


def several_answers(rng: random.Random) -> Judged:
    """More than one answer, of which one is right; or parts of the right one."""
    n, m = rng.randint(2, 99), rng.randint(100, 200)
    right, other = rng.sample("ABCD", 2)
    joint = rng.choice(
        [" or ", ", ", "; ", " and ", r" \text{ or } ", " / ", "|", " vs ", r"\text{, maybe }", r"\lor ", r"\\", " "]
    )
    choice = rng.choice(
        [
            "{r}) or {o})", "{r}. Wait, it is {o}", "{{A. B. C. D.}}", "A. B. C. D.", "{r} or {o}", "{r}, {o}",
            "{r} {o}", "({r})({o})",
            "{r}/{o}", "{r}{o}", "{r}: or {o}", "({r}) no, ({o})", r"\text{{{r} or {o}}}",
            r"\text{{{r}}}, \text{{{o}}}", "{r}. {o}.",
            "{r}) not {o})", "({r}) I mean {o}", "{r}. Actually no", "{r}: wrong", "{r}. maybe", "{r} and {o}",
            "({r}) or something else",
        ]
    )  # fmt: skip
    return rng.choice(
        [
            (right, choice.format(r=right, o=other), 0.0),
            (str(n), f"{n}{joint}{m}", 0.0),
            (str(n), f"{m}{joint}{n}", 0.0),
            (
                f"{n},{m}",
                rng.choice(["{m} and {n}", "({n},{m})", "{n} or {m}", "{m},{n}", r"\{{{n},{m}\}}", "[{n},{m}]"]).format(
                    n=n, m=m
                ),
                0.0,
            ),
            (f"{n}, {n + m}", f"({n},{n + m})", 0.0),
            (f"({n},{m})", f"{n},{m}", 0.0),
            (rf"x \in ({n},{m})", f"{n}, {m}", 0.0),
            (f"({n},{m}]", f"{n}, {m}", 0.0),
            ("101", "101_2", 0.0),
            (f"1{n:02}", f"1{n:02}_{{3}}", 0.0),
            ("10:30", rng.choice(["1/3", r"\frac{1}{3}", "0.333333", "10/30", "10.5", "1030"]), 0.0),
            ("1/3", "10:30", 0.0),
        ]
    )


def forms_of_a_number(rng: random.Random) -> Judged:
    """One number, written in any way that people write it: right."""
    n, d = rng.randint(1000, 99999), rng.choice([2, 4, 5, 8])
    k = rng.randrange(1, d)
    grouped = f"{n:,}"
    vulgar = {
        "1/2": "\u00bd",
        "1/4": "\u00bc",
        "3/4": "\u00be",
        "1/3": "\u2153",
        "2/3": "\u2154",
        "1/5": "\u2155",
        "5/8": "\u215d",
    }
    top_bottom = rng.choice(list(vulgar))
    forms = [
        (str(n), rng.choice([str(n), f"{n}.0", f"{n}.00", f"+{n}", f"{n}.", grouped, grouped.replace(",", "{,}"),
        f"0{n}", f"({n})"])),
        (grouped, rng.choice([str(n), grouped, grouped.replace(",", r"\,"), grouped.replace(",", " "),
        grouped.replace(",", r"{,}\!")])),
        (f"-{n}", rng.choice([f"-{n}", f"\u2212{n}", f"- {n}", f"(-{n})", f"-{grouped}"])),
        (f"{k}/{d}", rng.choice([rf"\frac{{{k}}}{{{d}}}", rf"\dfrac{k}{d}", f"{k / d}", f"{k}/{d}",
        f"{k * 3}/{d * 3}", f"{100 * k / d}\\%"])),
        (f"{k / d}", rng.choice([rf"\frac{{{k}}}{{{d}}}", f"{k}/{d}", f"{k / d}0", f"{k / d}"[1:]])),
        (f"{n + k / d}", rng.choice([rf"{n}\frac{{{k}}}{{{d}}}", f"{n} {k}/{d}", rf"\frac{{{n * d + k}}}{{{d}}}"])),
        (top_bottom, vulgar[top_bottom]),
        (rf"5\frac{{{top_bottom[0]}}}{{{top_bottom[2]}}}", "5" + vulgar[top_bottom]),
        (f"{n}000000", rng.choice([rf"{n} \times 10^6", rf"{n}\cdot 10^{{6}}", f"{n}e6", f"{n} million",
        rf"{n}\text{{ million}}"])),
        ("0.00012", rng.choice([r"1.2 \times 10^{-4}", "1.2e-4", r"1.2\cdot10^{-4}", "1.2 \u00d7 10\u207b\u2074",
        r"\frac{3}{25000}"])),
        ("1/3", rng.choice(["0.(3)", r"0.\overline{3}", r"0.\bar{3}", r"0.\dot{3}", "0.333333", "\u2153",
        "0.3333333333"])),
        ("1/6", rng.choice(["0.1(6)", r"0.1\overline{6}", r"0.1\bar{6}", r"0.1 \overline{6}"])),
        ("50\\%", rng.choice(["50%", r"50\%", "50 percent", r"50\text{ percent}", "1/2", "0.5", "50",
        "50 per cent"])),
        (f"\\${n}", rng.choice([f"${n}", f"\\${n}.00", f"{n} dollars", f"\\${grouped}", str(n), f"USD {n}"[4:]])),
        ("2^{10}", rng.choice(["1024", "2^{10}", "1,024"])),
        (r"3\sqrt{2}", rng.choice([r"3\sqrt{2}", r"\sqrt{18}", r"\sqrt{2}\cdot 3", r"3 \sqrt 2", "3\u221a2",
        r"\sqrt{2} \times 3", "\u221a18"])),
        (r"\frac{\sqrt{2}}{2}", rng.choice([r"\frac{1}{\sqrt{2}}", r"\frac12\sqrt2", r"\sqrt{\frac12}", r"2^{-1/2}",
        r"\frac{\sqrt2}2"])),
        (rf"{n}\pi", rng.choice([rf"{n}\pi", rf"\pi\cdot{n}", rf"{n} \cdot \pi", f"{n}\u03c0", rf"{n} \times \pi"])),
        (r"\frac{1+\sqrt{5}}{2}", rng.choice([r"\frac{\sqrt5+1}{2}", r"\frac12+\frac{\sqrt5}{2}", "(1+\u221a5)/2",
        "1.618034"])),
        ("3+4i", rng.choice(["3+4i", "4i+3", "3 + 4 i"])),
        ("x^2", rng.choice(["x\u00b2", "x^2", "x^{2}", "x**2", r"x\cdot x"])),
        ("x^{10}", rng.choice(["x\u00b9\u2070", "x^{10}", "x**10"])),
        ("x=5", rng.choice(["x=5", "5=x", "x = 5", "5", "$x=5$", "x == 5", "x=2+3=5"])),
        (f"{n}", f"x = {n}"),
        ("10:30", rng.choice(["10:30", r"10:30", "\\text{10:30}"])),
        ("2:3", rng.choice(["2:3", "2/3", "4:6", "2 : 3"])),
    ]  # fmt: skip
    gold, answer = rng.choice(forms)
    return gold, answer, 1.0


def wrapped(rng: random.Random) -> Judged:
    """The right answer, set off in one of the ways of LaTeX and Markdown: right."""
    gold, answer = rng.choice(
        [("42", "42"), ("-7", "-7"), (r"\frac{1}{2}", r"\frac{1}{2}"), ("1/2", r"\dfrac{1}{2}"), ("(1,2)", "(1,2)"),
        ("x^2+1", "x^2+1"),
         ("1,234", "1{,}234"), ("1,234", "1234"), ("0.5", "0.5"), ("3,4", "3, 4"), (r"2\sqrt{3}", r"2\sqrt{3}"),
         ("B", "B")]
    )  # fmt: skip
    wrap = rng.choice(
        ["{}", "${}$", r"\({}\)", r"\[{}\]", "$${}$$", r"\textcolor{{red}}{{{}}}", r"\underline{{{}}}", "**{}**",
        "__{}__", "`{}`", "*{}*",
         r"\color{{red}}{{{}}}", r"\color{{blue}} {}", r"{{\color{{red}} {}}}", r"\mathbf{{{}}}",
         r"\boldsymbol{{{}}}", "{}.", " {} ", r"\displaystyle {}",
         r"\boxed{{{}}}", r"\fbox{{{}}}", r"\bm{{{}}}", "= {}", "{{{}}}", r"\,{}\,", r"\left.{}\right."]
    )  # fmt: skip
    if "mathbf" in wrap and answer not in ("42", "-7", "0.5", "B"):
        wrap = "{}"
    return gold, wrap.format(answer), 1.0


def units_after_a_number(rng: random.Random) -> Judged:
    """The right number with its unit or with what is counted: right where the gold has none or the same."""
    n = rng.randint(2, 500)
    unit = rng.choice(_UNITS)
    form = rng.choice(
        [
            "{n} {u}",
            r"{n} \text{{ {u}}}",
            r"{n}\ \text{{{u}}}",
            r"\text{{{n} {u}}}",
            r"x = {n}\text{{ {u}}}",
            r"{n}\,\mathrm{{{u}}}",
        ]
    )
    gold = rng.choice([str(n), str(n), rf"{n} \text{{ {unit}}}"])
    if "mathrm" in form and " " in unit:
        form = "{n} {u}"
    return gold, form.format(n=n, u=unit), 1.0


def labelled(rng: random.Random) -> Judged:
    """The right number with its name: right."""
    n = rng.randint(2, 500)
    label = rng.choice(
        ["x", "y", r"\theta", "f(x)", "x_1", "a_{12}", r"\text{Total}", r"\text{Total cost}", "Area", "AB", "|AB|",
        r"\angle ABC", "P(A)",
         r"f(2)", r"\overline{AB}", r"\text{The answer}", "n", r"\gcd(4,6)", r"\det A", "[ABC]",
         r"\sum a_i"]
    )  # fmt: skip
    form = rng.choice(
        ["{l} = {n}", "{l}={n}", "{l} = {m}+1 = {n}", r"{l} = {n} \text{{ cm}}", "{l} = {n}.0", "{l} == {n}"]
    )
    return str(n), form.format(l=label, n=n, m=n - 1), 1.0


def choices(rng: random.Random) -> Judged:
    """The right choice, with its brackets or its text: right."""
    letter = rng.choice("ABCDE")
    form = rng.choice(
        ["{l}", "({l})", "{l}.", "{l})", r"\text{{{l}}}", r"\text{{({l})}}", r"\textbf{{{l}}}", r"\mathrm{{{l}}}",
        "({l}) 42", "{l}. 12",
         "{l}: 3/4", r"\textbf{{({l})}}", "({l}) Paris", "{l}. the blue one", "({l})\\ 12", r"\text{{{l}}}.",
         "**{l}**"]
    )  # fmt: skip
    return letter, form.format(l=letter), 1.0


JUDGED: tuple[Callable[[random.Random], Judged], ...] = (
    copied_questions,
    copied_equations,
    words_after_a_number,
    not_equal,
    several_answers,
    forms_of_a_number,
    wrapped,
    units_after_a_number,
    labelled,
    choices,
)


def judged(num: int, seed: int) -> Iterator[Case]:
    """Make judged answers in boxes, the families in turn, each pair once."""
    rng = random.Random(seed)
    seen = set()
    for index in range(num):
        make = JUDGED[index % len(JUDGED)]
        gold, answer, reward = make(rng)
        if (gold, answer) not in seen:
            seen.add((gold, answer))
            yield Case(make.__name__.replace("_", " "), gold, rf"So it is \boxed{{{answer}}}.", reward)
