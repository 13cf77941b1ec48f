r"""What a variable may be: a positive number where a root or a logarithm is taken of it, an integer in ``n!``."""

from __future__ import annotations

from ada_lightning.rewards.latex.cost import rational
from ada_lightning.rewards.latex.tree import Tree, symbols, walk

_EVEN = 2


def positives(tree: Tree) -> frozenset[str]:
    r"""Variables under an even root, a logarithm or a power that is no integer, and outside of absolute values.

    What holds for positive numbers only is meant for them where both sides have such a part: ``\sqrt{ab}`` is
    ``\sqrt a\sqrt b``. It is not where one side takes care of signs: ``\sqrt{x^2}`` is no ``x``, and ``\ln|x|`` no
    ``\ln x``.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> sorted(positives(read(r"\sqrt{ab}+c"))), sorted(positives(read(r"\ln|x|")))
        (['a', 'b'], [])
    """
    kind, parts = tree[0], [part for part in tree[1:] if isinstance(part, tuple)]
    found = frozenset[str]().union(*(positives(part) for part in parts))
    if kind in ("ln", "log") or (kind == "power" and _is_even_root(tree[2])):
        found |= _outside_of_bars(parts[0])
    return found - _inside_of_bars(tree)


def _is_even_root(exponent: Tree) -> bool:
    power = rational(exponent)
    return symbols(exponent) != frozenset() if power is None else power.denominator % _EVEN == 0


def _outside_of_bars(tree: Tree) -> frozenset[str]:
    if tree[0] == "symbol":
        return frozenset((tree[1],))
    if tree[0] == "abs":
        return frozenset()
    return frozenset[str]().union(*(_outside_of_bars(part) for part in tree[1:] if isinstance(part, tuple)))


def _inside_of_bars(tree: Tree) -> frozenset[str]:
    return frozenset[str]().union(*(symbols(part) for part in walk(tree) if part[0] == "abs"))


def integers(tree: Tree) -> frozenset[str]:
    r"""Variables of factorials and binomials, and of powers of negative numbers such as ``(-1)^n``.

    Example:
        >>> from ada_lightning.rewards.latex.grammar import read
        >>> sorted(integers(read("n!x+(-1)^k")))
        ['k', 'n']
    """
    found = frozenset[str]()
    for part in walk(tree):
        if part[0] in ("factorial", "binomial"):
            found |= symbols(part)
        elif part[0] == "power":
            base = rational(part[1])
            found |= symbols(part[2]) if base is not None and base < 0 else frozenset()
    return found
