r"""Families of hostile responses. Each is a function of a random generator; equal seeds give equal responses."""

from __future__ import annotations

import base64
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice


@dataclass(frozen=True, slots=True)
class Case:
    """A response with its known verdict."""

    family: str
    gold: str
    text: str
    expected: float | None
    """None where any verdict, a failed one too, is acceptable: only that it comes back counts."""


CANARY = "reward_attack_canary"
"""File that injected code would create in the current folder, or a variable it would set."""
GOLDS = (
    "42", r"\frac{1}{2}", "x^2+1", "(1,2)", r"\{1,2,3\}", r"\text{Evelyn}", r"[0,\infty)", r"2\sqrt{3}", "x>2",
    "y=2x+3", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "50\\%", r"5\text{ cm}", "B",
)  # fmt: skip
_SPELLINGS = {
    "42": ("42", "42.0", "x=42", "$42$", r"\underline{42}", "42=x"),
    r"\frac{1}{2}": ("0.5", r"\dfrac12", "1/2", "50\\%", r"\frac{4}{8}"),
    "x^2+1": ("1+x^2", "x\\cdot x+1", r"\left(x^2+1\right)"),
    "(1,2)": ("(1, 2)", r"\left(1,2\right)", "(1.0,2.0)"),
    r"2\sqrt{3}": (r"\sqrt{12}", r"\sqrt3\cdot2"),
}
_CONTROL = [chr(code) for code in (*range(0x00, 0x09), *range(0x0E, 0x1C), 0x7F, 0x80, 0x9B)]  # none is white space
_INVISIBLE = [chr(code) for code in (0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x202A, 0x202E, 0x2066, 0xFEFF, 0xE0041)]
_SURROGATES = [chr(code) for code in (0xD800, 0xDBFF, 0xDC00, 0xDFFF)]
_LOOK_ALIKES = str.maketrans(
    "aceopxy0123456789",
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443" + "".join(chr(0x0660 + digit) for digit in range(10)),
)


class _Unpickled:
    """Runs a command where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        import os

        return os.system, (f"touch {CANARY}",)


def _code(rng: random.Random) -> str:
    command = f"touch {CANARY}"
    pickled = base64.b64encode(pickle.dumps(_Unpickled())).decode()
    return rng.choice(
        [
            f"__import__('os').system('{command}')",
            f'__import__("os").system("{command}")',
            f"exec(\"open('{CANARY}','w')\")",
            f"eval(compile('open(\"{CANARY}\",\"w\")','','exec'))",
            f"open('{CANARY}','w')",
            f"().__class__.__base__.__subclasses__()[140].__init__.__globals__['system']('{command}')",
            f"lambda: __import__('os').system('{command}')",
            f"(lambda _: __import__('os').system('{command}'))(0)",
            f"[__import__('os').system('{command}') for _ in [0]]",
            f"f\"{{__import__('os').system('{command}')}}\"",
            "{0.__class__.__init__.__globals__}",
            "%(__class__)s",
            "{prompt.reference}",
            "$(" + command + ")",
            f"`{command}`",
            f"; {command} #",
            rf"\write18{{{command}}}",
            rf"\immediate\write18{{{command}}}",
            rf"\input{{|{command}}}",
            rf"\openout1={CANARY}",
            rf"\text{{__import__('os').system('{command}')}}",
            rf"\mathrm{{open('{CANARY}','w')}}",
            rf"\operatorname{{__import__('os').system}}('{command}')",
            rf"\operatorname{{eval}}(open('{CANARY}','w'))",
            f"x_{{__import__('os').system('{command}')}}",
            f"Symbol('x').subs('x', '__import__(\"os\").system(\"{command}\")')",
            f'sympify(\'open("{CANARY}","w")\')',
            f'parse_expr(\'open("{CANARY}","w")\')',
            f'S(\'open("{CANARY}","w")\')',
            f"N(__import__('os').system('{command}'))",
            f'lambdify(x, \'open("{CANARY}","w")\')(1)',
            f"Function('f', eval=lambda *a: open('{CANARY}','w'))(1)",
            f"preview(x, viewer='file', filename='{CANARY}')",
            f"pickle.loads(base64.b64decode('{pickled}'))",
            pickled,
            f"!!python/object/apply:os.system ['{command}']",
            f"<script>require('fs').writeFileSync('{CANARY}','')</script>",
            f"{{{{ cycler.__init__.__globals__.os.system('{command}') }}}}",
            f"1 if __import__('os').system('{command}') else 42",
            f"42 + 0*__import__('os').system('{command}')",
            f"42) or open('{CANARY}','w') or (42",
            f"42\n__import__('os').system('{command}')",
        ]
    )


def _tower(rng: random.Random) -> str:
    base = rng.choice(["9", "10", "99", "x", r"\pi", "e", "(x+1)", "1.0001", r"\frac{9}{2}"])
    height = rng.randint(3, 40)
    shape = rng.choice(["^", "!", "mixed", "plain"])
    if shape == "!":
        return "(" * height + rng.choice(["9", "100", "10^6"]) + ")!" * height
    if shape == "plain":
        return "^".join(["9"] * height)
    text = rng.choice(["9", "9!", "99", "10^9"])
    for _ in range(height):
        text = f"{base}^{{{text}}}" + ("!" if shape == "mixed" and rng.random() < 0.5 else "")
    return text


def _huge_number(rng: random.Random) -> str:
    digits = rng.choice([401, 1_000, 5_000, 100_000])
    return rng.choice(
        [
            "9" * digits,
            "-" + "9" * digits,
            "0." + "3" * digits,
            "1" + ",000" * (digits // 3),
            "1e999999999",
            "1e-999999999",
            "1E+" + "9" * digits,
            "9" * 399 + "/" + "7" * 399,
            r"\frac{" + "9" * digits + "}{" + "7" * digits + "}",
            "10^{-10^{10}}",
            r"10^{999999999}\%",
            "0x" + "f" * digits,
            "1_" + "0" * 50,
            r"\sqrt{" + "9" * rng.choice([100, 300, 390]) + "}",
            r"\sqrt[99999]{7}",
            "\\sin(10^{" + "9" * rng.randint(3, 20) + "})",
            r"\binom{10^9}{10^8}",
            r"\binom{100000}{50000}",
            "100000!",
            "(-1)^{10^{100}}",
            "inf",
            "nan",
            "-inf",
            "1/0",
            r"\frac{0}{0}",
        ]
    )


def _deep(rng: random.Random) -> str:
    levels = rng.choice([25, 100, 1_000, 30_000])
    opening, closing, inner = rng.choice(
        [
            ("{", "}", "41"),
            ("(", ")", "41"),
            ("[", "]", "41"),
            (r"\{", r"\}", "41"),
            (r"\frac{1}{", "}", "7"),  # of no depth a gold answer
            (r"\sqrt{1+", "}", "2"),
            (r"\left(", r"\right)", "41"),
            (r"\text{", "}", "no"),
            ("|", "|", "41"),
            (r"\sin(", ")", "1"),
            ("2^{", "}", "2"),
            ("x_{", "}", "1"),
            ("(1,", ")", "3"),
            ("-(", ")", "41"),
            (r"\begin{pmatrix}", r"\end{pmatrix}", "41"),
        ]
    )
    depth = rng.choice([levels, rng.randint(5, 24)])
    return opening * depth + inner + closing * rng.choice([depth, depth, max(depth - 1, 1), depth + 1])


def _long(rng: random.Random) -> str:
    unit = rng.choice(
        [
            "1+", "x+", "1,", "(1,2),", "41 ", "-", "!", "^", r"\pm", "a_1", r"\cup", "&", r"\\", "=", "x=",
            "<", r"\cdot 3", "/2", "|x|", "%", "$", ".", "\n", " ", r"\text{a}", r"\frac12", "2x^2+3x-",
            r"\sin ",
        ]
    )  # fmt: skip
    return unit * (rng.choice([100, 990, 10_000, 100_000]) // len(unit) + 1) + rng.choice(["1", "x", ""])


def _giant(rng: random.Random) -> str:
    size = rng.choice([3, 10, 30, 200])
    rows = r"\\".join("&".join(str(rng.randint(2, 9)) for _ in range(size)) for _ in range(size))
    return rng.choice(
        [
            rf"\begin{{pmatrix}}{rows}\end{{pmatrix}}",
            rf"\begin{{vmatrix}}{rows}\end{{vmatrix}}",
            rf"\det\begin{{pmatrix}}{rows}\end{{pmatrix}}",
            r"\sum_{n=1}^{10^{12}}\frac{1}{n}",
            r"\sum_{n=1}^{\infty}\frac{1}{n^2}",
            r"\prod_{n=1}^{10^{9}}n",
            r"\int_0^{10^9} e^{x^2}\sin(x^x)\,dx",
            r"\lim_{x\to0}\frac{\sin(\sin(\sin x))-x}{x^{99}}",
            r"\operatorname{eigenvals}(" + rf"\begin{{pmatrix}}{rows}\end{{pmatrix}}" + ")",
            r"\operatorname{zeros}(10^9,10^9)",
            r"\gcd(10^{10^6},6)",
            "(x+y+z+w)^{" + rng.choice(["60", "64", "100", "99999"]) + "}",
            "+".join(rf"\sin({n}x)^{{{n}}}\cos({n}y)" for n in range(2, 20)),
            r"\cdot".join(f"(x^{{{n}}}+{n})" for n in range(2, 30)),
            r"\sqrt{x+" * 12 + "y" + "}" * 12,
            r"\frac{x^{64}-1}{x-1}+" + "+".join(f"x^{{{n}}}" for n in range(50)),
            ",".join(f"x^{n % 60}+{n}" for n in range(100)),
            r"\{" + ",".join(rf"\sqrt{{{n}}}" for n in range(60)) + r"\}",
            "x^{60}+y^{59}z^{58}=w^{57}x+1",
            r"x^5-x+1>\sin x",
            r"\sin(x)+x^x=2^x<x!",
        ]
    )


def _spoilt(rng: random.Random, text: str) -> str:
    letters = list(text)
    for _ in range(rng.randint(1, 4)):
        letters.insert(rng.randint(0, len(letters)), rng.choice(_CONTROL + _INVISIBLE + _SURROGATES))
    return "".join(letters)


def _noise(rng: random.Random) -> str:
    r"""Text around a box: anything that closes no box."""
    return " ".join(_piece_of_noise(rng) for _ in range(rng.randint(1, 6)))


def _piece_of_noise(rng: random.Random) -> str:
    return rng.choice(
        [
            "".join(rng.choices(_CONTROL + _INVISIBLE + _SURROGATES, k=rng.randint(1, 200))),
            rng.choice("{(x9!$%") * rng.choice([10, 1_000, 20_000]),
            _code(rng),
            r"\boxed{41}" * rng.choice([1, 100, 2_000]),
            r"\boxed{" * rng.choice([1, 50, 5_000]),
            r"\boxed" * 10,
            _tower(rng),
            r"\fbox{7} \\boxed 8 ",
        ]
    )


def wrong_answers(family: Callable[[random.Random], str]) -> Callable[[random.Random], Case]:
    """Make responses whose box holds what the family writes: worth 0 against any gold."""
    name = family.__name__.strip("_")

    def make(rng: random.Random) -> Case:
        return Case(name.replace("_", " "), rng.choice(GOLDS), rf"So it is \boxed{{{family(rng)}}}.", 0.0)

    return make


def invisible_characters(rng: random.Random) -> Case:
    """A right answer with characters in it that nobody sees: not what was asked for, so worth 0."""
    gold = rng.choice([gold for gold in GOLDS if "text" not in gold and gold != "B"])
    return Case("invisible characters", gold, rf"\boxed{{{_spoilt(rng, gold)}}}", 0.0)


def look_alikes(rng: random.Random) -> Case:
    """A right answer in the characters of other scripts."""
    gold = rng.choice(["42", "x^2+1", "(1,2)", "y=2x+3"])
    return Case("look-alikes", gold, rf"\boxed{{{gold.translate(_LOOK_ALIKES)}}}", 0.0)


def right_in_noise(rng: random.Random) -> Case:
    """A right answer after hostile text: worth 1, whatever stands before."""
    gold = rng.choice(list(_SPELLINGS))
    return Case("right after hostile text", gold, f"{_noise(rng)}\n\\boxed{{{rng.choice(_SPELLINGS[gold])}}}", 1.0)


def right_then_unclosed(rng: random.Random) -> Case:
    """A right answer, and then boxes that are never closed: the last closed one counts."""
    gold = rng.choice(list(_SPELLINGS))
    rest = r" \boxed{7 " * rng.choice([1, 100, 5_000])
    return Case("unclosed boxes after", gold, rf"\boxed{{{rng.choice(_SPELLINGS[gold])}}}{rest}", 1.0)


def no_box(rng: random.Random) -> Case:
    """Hostile text without a closed box: worth 0."""
    text = rng.choice([_code, _tower, _huge_number, _long])(rng).replace("boxed", "")
    return Case("no box", rng.choice(GOLDS), rng.choice(["", r"\boxed{", "\x00" * 1_000]) + text.replace("}", ""), 0.0)


def thousands_of_boxes(rng: random.Random) -> Case:
    """Many boxes, the last one wrong."""
    return Case("many boxes", "42", r"\boxed{42}" * rng.choice([100, 5_000]) + r"\boxed{41}", 0.0)


def equal_at_length(rng: random.Random) -> Case:
    """A right answer that takes algebra to see: worth 1, but a constant or a solution must be worked out."""
    gold = rng.choice(["x^2+1", "y=2x+3", "x>2", r"2\sqrt{3}", "42"])
    size = rng.randint(2, 12)
    power = f"x^{{{min(size, 9)}}}"  # e to a higher one counts as too costly to evaluate: equal only if written alike
    inner = rng.choice(["x", f"{size}x", power, r"\frac{x}{3}", "x^2+x", "(x-1)"])
    one = rng.choice(
        [
            rf"(\sin^2({inner})+\cos^2({inner}))",
            rf"\frac{{({inner}+1)^{{{size}}}}}{{({inner}+1)^{{{size}}}}}",
            rf"(({inner}+1)^2-({inner})^2-2\cdot({inner}))",
            rf"\frac{{{size}!}}{{{size}\cdot({size}-1)!}}",
            rf"e^{{{inner}}}\cdot e^{{-({inner})}}",
            r"(\sqrt{2}-1)(\sqrt{2}+1)",
        ]
    )
    text = {
        "x^2+1": f"x^2+{one}",
        "y=2x+3": f"y=2x+3\\cdot {one}",
        "x>2": f"{size}x>{2 * size}\\cdot {one}",
        r"2\sqrt{3}": rf"\sqrt{{12}}\cdot {one}",
        "42": f"41+{one}",
    }[gold]
    return Case("equal at length", gold, rf"\boxed{{{text}}}", float(gold in ("x^2+1", "y=2x+3")))


def almost_equal(rng: random.Random) -> Case:
    """A wrong answer that floating point or a few digits would not tell from the right one: worth 0."""
    gold = rng.choice(["x^2+1", "y=2x+3", "x>2", r"2\sqrt{3}", "42", r"\frac{1}{2}"])
    small = rng.choice(["10^{-20}", r"\frac{1}{10^{25}}", r"2^{-80}", r"\frac{1}{" + "9" * 18 + "}"])
    text = {"x>2": rf"x>2+{small}"}.get(gold, f"{gold}+{small}")
    return Case("almost equal", gold, rf"\boxed{{{text}}}", 0.0)


def mixture(rng: random.Random) -> Case:
    """Several families in one box."""
    content = "".join(
        rng.choice([_code, _tower, _huge_number, _deep, _giant])(rng)[:400] for _ in range(rng.randint(2, 4))
    )
    return Case("mixtures", rng.choice(GOLDS), rf"\boxed{{{content}}}", None)


FAMILIES: tuple[Callable[[random.Random], Case], ...] = (
    *(wrong_answers(family) for family in (_code, _tower, _huge_number, _deep, _long, _giant)),
    invisible_characters,
    look_alikes,
    right_in_noise,
    right_then_unclosed,
    equal_at_length,
    almost_equal,
    no_box,
    thousands_of_boxes,
    mixture,
)


def hostile(num: int, seed: int) -> Iterator[Case]:
    """Make hostile responses, the families in turn."""
    rng = random.Random(seed)
    return (make(rng) for make in islice(cycle(FAMILIES), num))
