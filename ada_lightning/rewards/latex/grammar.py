r"""A small grammar of LaTeX expressions: text in, a tree of tuples out. Nothing is evaluated, nothing but this is read.

Why not the parser that math-verify brings along (latex2sympy2_extended 1.11)? Its number tokens go through
``sympy.Number(str)`` to ``sympify``, ``parse_expr`` and Python's ``eval``. Its time grows exponentially with nested
parentheses (eight of them: seconds). It computes matrices, binomials and intervals while it reads. It drops subscripts,
so ``101_2`` equals ``101_3``. And math-verify's plain expressions (``ExprExtractionConfig``) go to ``parse_expr``
directly. Here a name is a Greek letter, a Latin letter or a short word of letters and digits, so even a library that
prints and re-reads an expression meets nothing that can be called.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from ada_lightning.rewards.latex.tree import MAX_NODES, Tree, joined, negative

MAX_DIGITS = 400
MAX_DEPTH = 24
_MAX_CHAIN = 40  # divisions one after the other nest without brackets
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(?P<word>\\text\s*\{\s*[A-Za-z][A-Za-z0-9 ]{0,30}\})"
    r"|(?P<command>\\(?:[a-zA-Z]+|[{}]))|(?P<letter>[a-zA-Z])|(?P<sign>[-+/^_()\[\]{}|!=<>:]))"
)
# fmt: off
_GREEK = frozenset(
    (
        "alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota",
        "kappa", "lambda", "mu", "nu", "xi", "rho", "varrho", "sigma", "tau", "upsilon", "phi", "varphi", "chi",
        "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Upsilon", "Phi", "Psi",
        "Omega", "ell", "hbar",
    )
)
FUNCTIONS = frozenset(
    (
        "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "ln",
        "log", "exp",
    )
)
# fmt: on
_RELATIONS = {"=": "=", "<": "<", ">": ">", r"\le": "<=", r"\ge": ">=", r"\ne": "!="}
_TIMES = frozenset({r"\cdot", r"\times"})
_DIVIDE = frozenset({"/", r"\div", ":"})
_CLOSE = {"(": ")", "[": "]", "{": "}", r"\{": r"\}", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil"}


class UnreadableError(ValueError):
    """The text is outside of the grammar, or too large for it."""


def read(text: str) -> Tree:
    r"""Read one expression or relation of tidy LaTeX (:func:`ada_lightning.rewards.latex.text.tidy`).

    Raises:
        UnreadableError: it is outside of the grammar, nests deeper than 24, has a literal of more than 400 digits or
            more than 400 parts.

    Example:
        >>> read("x^2")
        ('power', ('symbol', 'x'), ('number', Fraction(2, 1), False))
    """
    return _Reader(_tokens(text)).whole()


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise UnreadableError(f"no expression: {text[position : position + 20]!r}")
        tokens.append(found[0].strip())
        position = found.end()
        if len(tokens) > 2 * MAX_NODES:
            raise UnreadableError(f"more than {2 * MAX_NODES} tokens")
    return tokens


class _Reader:
    """Recursive descent with one token of look-ahead: linear in the number of tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0
        self.open_bars = 0
        self.open_functions = 0

    def whole(self) -> Tree:
        left = self.sum()
        chain = []
        while self.peek() in _RELATIONS:
            operator = _RELATIONS[self.take()]
            right = self.sum()
            chain.append(("relation", operator, left, right))
            left = right
        if self.peek():
            raise UnreadableError(f"cannot read on at {self.peek()!r}")
        if not chain:
            return left
        return chain[0] if len(chain) == 1 else ("and", *chain)

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise UnreadableError(f"expected {expected or 'more'}, found {token or 'the end'}")
        self.position += 1
        return token

    def descend(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise UnreadableError(f"nested deeper than {MAX_DEPTH}")

    def sum(self) -> Tree:
        self.descend()
        terms = [self.product()]
        while self.peek() in ("+", "-"):
            sign = self.take()
            term = self.product()
            terms.append(negative(term) if sign == "-" else term)
        self.depth -= 1
        return terms[0] if len(terms) == 1 else ("add", *terms)

    def product(self) -> Tree:
        result = self.signed()
        divisions = 0
        for _ in range(MAX_NODES):
            token = self.peek()
            if token in _TIMES:
                self.take()
                result = joined("multiply", result, self.signed())
            elif token in _DIVIDE:
                self.take()
                result = ("divide", result, self.signed())
                divisions += 1
            else:
                return result
            if divisions > _MAX_CHAIN:
                break
        raise UnreadableError("too many factors")

    def signed(self) -> Tree:
        num_minus = 0
        while self.peek() in ("+", "-"):
            num_minus += self.take() == "-"
        result = self.factors(self.starts_factor)
        if num_minus > 1:  # two signs stay an operation: --5 is a task, not a number
            result = ("multiply", _ONE, result)
        return negative(result) if num_minus % 2 else result

    def factors(self, goes_on: Callable[[], bool]) -> Tree:
        """What stands side by side, for as long as ``goes_on`` says."""
        starts, factors = [self.peek()], [self.postfixed()]
        while goes_on():
            is_power = self.tokens[self.position + 1 : self.position + 2] == ["^"] and factors[-1][0] != "number"
            starts.append("power" if is_power else self.peek())  # of a number: n2^n is a product, x2 who knows
            factors.append(self.postfixed())
        return _adjacent(factors, starts)

    def starts_factor(self) -> bool:
        token = self.peek()
        if token == "|":
            return not self.open_bars
        if not token or token in _RELATIONS or token in _TIMES or token in _DIVIDE:
            return False
        return (
            token in _CLOSE
            or (token[0] == "\\" and token not in _CLOSE.values())
            or token[0].isalnum()
            or token[0] == "."
        )

    def postfixed(self) -> Tree:
        base = self.atom()
        for _ in range(4):
            if self.peek() not in ("!", "^"):
                return base
            if self.open_functions and self.tokens[self.position : self.position + 2] == ["^", r"\circ"]:
                self.position += 2
                base = joined("multiply", base, _DEGREE)
                continue
            base = ("factorial", base) if self.take() == "!" else ("power", base, self.exponent())
        raise UnreadableError("more than three powers and factorials in a row")

    def exponent(self) -> Tree:
        self.descend()
        if self.peek() == "-":
            self.take()
            result = negative(self.atom())
        else:
            result = self.atom()
        if self.peek() == "^":  # 2^3^2 is 2^(3^2)
            self.take()
            result = ("power", result, self.exponent())
        self.depth -= 1
        return result

    def atom(self) -> Tree:
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            if len(token) > MAX_DIGITS:
                raise UnreadableError(f"a literal of more than {MAX_DIGITS} digits")
            if self.peek() == "_" or re.match("0[1-9]", token):
                raise UnreadableError("a number with a subscript, or one that begins with 0, as in dates")
            return "number", Fraction(token), "." in token
        if token == "|":
            self.open_bars += 1
            content = self.sum()
            self.take("|")
            self.open_bars -= 1
            return "abs", content
        if token in _CLOSE:
            return self.bracketed(token)
        if token[0] == "\\":
            return self.command(token[1:])
        if token.isalpha():
            return ("constant", token) if token in ("e", "i") and self.peek() != "_" else self.named(token)
        raise UnreadableError(f"unexpected {token!r}")

    def bracketed(self, token: str) -> Tree:
        bars, self.open_bars = self.open_bars, 0
        content = self.sum()
        self.take(_CLOSE[token])
        self.open_bars = bars
        return {r"\lfloor": ("floor", content), r"\lceil": ("ceiling", content)}.get(token, content)

    def command(self, name: str) -> Tree:
        if name.startswith("text"):
            return self.named(re.sub(r"[^A-Za-z0-9]", "", name[4:]))
        if name in ("pi", "infty"):
            return "constant", name
        if name in _GREEK:
            return self.named(name)
        if name in ("frac", "binom"):
            upper, lower = self.group(), self.group()
            return ("divide" if name == "frac" else "binomial"), upper, lower
        if name == "sqrt":
            return self.root()
        if name in FUNCTIONS:
            return self.function(name)
        raise UnreadableError(f"\\{name} is not known here")

    def group(self) -> Tree:
        r"""What stands in braces, or one character or command without them, as in ``\frac1x``."""
        token = self.peek()
        if token != "{":
            if token[:1].isdigit() and len(token) > 1:
                self.tokens[self.position : self.position + 1] = [token[0], token[1:]]
            elif not (token[:1].isalnum() or token[1:] == "pi" or token[1:] in _GREEK):
                raise UnreadableError(f"expected {{, found {token or 'the end'}")
            return self.atom()
        self.take("{")
        return self.bracketed("{")

    def root(self) -> Tree:
        order: Tree = ("number", Fraction(2), False)
        if self.peek() == "[":
            self.take()
            order = self.bracketed("[")
        if self.peek() not in ("{", "("):
            raise UnreadableError("a root without brackets")
        content = self.bracketed(self.take())
        return "power", content, ("divide", ("number", Fraction(1), False), order)

    def function(self, name: str) -> Tree:
        base: Tree | None = None
        power: Tree | None = None
        for _ in range(2):
            if self.peek() == "_" and name == "log":
                self.take()
                self.split_base()
                base = self.atom()
            elif self.peek() == "^":
                self.take()
                power = self.exponent()
        self.open_functions += 1
        argument = self.argument()
        self.open_functions -= 1
        if power == _MINUS_ONE and name in ("sin", "cos", "tan"):
            return "arc" + name, argument
        if base == ("constant", "e"):
            name, base = "ln", None
        result: Tree = (name, argument) if base is None else (name, argument, base)
        return result if power is None else ("power", result, power)

    def split_base(self) -> None:
        r"""Read ``\log_25`` as the logarithm of 5 to base 2, where nothing else can be its argument."""
        token, after = self.peek(), self.tokens[self.position + 1 : self.position + 2]
        if token.isdigit() and len(token) > 1 and (not after or after[0] in (*_RELATIONS, "+", "-", ")", "}", "]")):
            self.tokens[self.position : self.position + 1] = [token[0], token[1:]]

    def argument(self) -> Tree:
        if self.peek() in ("(", "{", "["):
            return self.bracketed(self.take())
        self.descend()
        result = self.factors(
            lambda: self.starts_factor() and self.peek()[1:] not in FUNCTIONS and self.peek() not in ("(", "[")
        )
        self.depth -= 1
        return result

    def named(self, name: str) -> Tree:
        if self.peek() == "_":
            self.take()
            subscript, level = self.take(), 0
            if subscript == "{":
                parts: list[str] = []
                while level or self.peek() != "}":
                    level += (self.peek() == "{") - (self.peek() == "}")
                    parts.append(self.take())
                self.take("}")
                subscript = "".join(parts)
            plain = re.sub(r"\\text\s*|[{}\\\s]", "", subscript).replace("+", "plus").replace("-", "minus")
            if not re.fullmatch(r"[A-Za-z0-9]{1,24}", plain):
                raise UnreadableError(f"a subscript of other than letters, digits and signs: {subscript[:20]!r}")
            name = f"{name}_{plain}"
        return "symbol", name


_ONE: Tree = ("number", Fraction(1), False)
_MINUS_ONE: Tree = ("number", Fraction(-1), False)
_DEGREE: Tree = ("divide", ("constant", "pi"), ("number", Fraction(180), False))


def _adjacent(factors: list[Tree], starts: list[str]) -> Tree:
    r"""What stands side by side is multiplied, except the mixed number ``2\frac{1}{2}``; ``starts``: first tokens."""
    if len(factors) == 1:
        return factors[0]
    whole, part = factors[0], factors[1]
    if (
        len(factors) == 2
        and whole[0] == "number"
        and not whole[2]
        and starts[0][0].isdigit()
        and starts[1] == r"\frac"
        and part[0] == "divide"
        and part[1][0] == part[2][0] == "number"
        and 0 < part[1][1] < part[2][1]
    ):
        return "number", whole[1] + part[1][1] / part[2][1], False
    if any(start[0].isdigit() or start[0] == "." for start in starts[1:]):  # x2 or 2 4: who knows
        raise UnreadableError("a number stands right after a letter, bracket or number, without a sign between them")
    return ("multiply", *factors)
