# ruff: noqa: RUF002 - the multiplication sign is how the task itself writes factors
"""Eight reasoning-gym tasks, and their answers worked out step by step in 20 to 80 tokens.

Of four the text tells how hard a question is (its terms, digits, animals or words), of four it does not (how often
Euclid has to divide, which primes are in a number).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import reasoning_gym
import yaml

from research.studies.runs import ROOT

TASKS: Mapping[str, Mapping[str, Any]] = yaml.safe_load((ROOT / "conf/data/source/tasks/eight.yaml").read_text())
"""Configuration by task: ``data/source/tasks=eight``."""
READABLE = frozenset({"chain_sum", "products", "leg_counting", "letter_counting"})
"""Those whose text tells how hard a question is."""


def entries(task: str, *, seed: int) -> Iterator[Mapping[str, Any]]:
    """Yield questions of a task without end, as the prompt source would make them from this seed."""
    settings = {name: value for name, value in TASKS[task].items() if name != "weight"}
    for start in count(seed, 1000):
        yield from reasoning_gym.create_dataset(task, **settings, seed=start, size=1000)


def worked(task: str, entry: Mapping[str, Any]) -> str:
    r"""Work a question out; the answer stands in ``<a></a>`` at the end.

    Example:
        >>> worked("gcd", {"metadata": {"numbers": [48, 18]}, "answer": "6"})
        '48 = 2 * 18 + 12\n18 = 1 * 12 + 6\n12 = 2 * 6 + 0\n<a>6</a>'
        >>> worked("chain_sum", {"metadata": {"expression": "4 - 1 - 7"}, "answer": "-4"})
        '4 - 1 = 3\n3 - 7 = -4\n<a>-4</a>'
        >>> worked("products", {"metadata": {"expression": "34 * 27"}, "answer": "918"})
        '34 * 7 = 238\n34 * 20 = 680\n238 + 680 = 918\n<a>918</a>'
        >>> worked("lcm", {"metadata": {"numbers": [12, 18]}, "answer": "36"})
        '18 = 1 * 12 + 6\n12 = 2 * 6 + 0\n12 / 6 = 2\n2 * 18 = 36\n<a>36</a>'
        >>> worked("prime_factorization", {"metadata": {"number": 90}, "answer": "2 × 3 × 3 × 5"})
        '90 = 2 * 45\n45 = 3 * 15\n15 = 3 * 5\n<a>2 × 3 × 3 × 5</a>'
    """
    lines = _STEPS[task](entry["metadata"])
    return "\n".join([*lines, f"<a>{entry['answer']}</a>"])


def _chain_sum(metadata: Mapping[str, Any]) -> Iterator[str]:
    first, *rest = re.findall(r"([+-]?)\s*(\d+)", metadata["expression"])
    total = int(first[1])
    for sign, number in rest:
        result = total + int(f"{sign}{number}")
        yield f"{total} {sign} {number} = {result}"
        total = result


def _products(metadata: Mapping[str, Any]) -> Iterator[str]:
    left, right = map(int, metadata["expression"].split(" * "))
    total = 0
    for place, digit in enumerate(reversed(str(right))):
        part = int(digit) * 10**place
        if part == 0:
            continue
        yield f"{left} * {part} = {left * part}"
        if total:
            yield f"{total} + {left * part} = {total + left * part}"
        total += left * part


def _leg_counting(metadata: Mapping[str, Any]) -> Iterator[str]:
    animals: Mapping[str, int] = metadata["animals"]
    legs = reasoning_gym.arithmetic.leg_counting.ANIMALS
    total = 0
    for animal, number in animals.items():
        part = number * legs[animal]
        yield f"{animal}: {number} * {legs[animal]} = {part}"
        if animal != next(iter(animals)):
            yield f"{total} + {part} = {total + part}"
        total += part


def _letter_counting(metadata: Mapping[str, Any]) -> Iterator[str]:
    total = 0
    for word in metadata["span"]:
        total += word.lower().count(metadata["target_letter"])
        yield f"{word} {total}"


def _euclid(large: int, small: int) -> Iterator[str]:
    large, small = max(large, small), min(large, small)
    while small:
        quotient, rest = divmod(large, small)
        yield f"{large} = {quotient} * {small} + {rest}"
        large, small = small, rest


def _gcd(metadata: Mapping[str, Any]) -> Iterator[str]:
    return _euclid(*metadata["numbers"])


def _lcm(metadata: Mapping[str, Any]) -> Iterator[str]:
    first, second = metadata["numbers"]
    yield from _euclid(first, second)
    shared = math.gcd(first, second)
    yield f"{first} / {shared} = {first // shared}"
    yield f"{first // shared} * {second} = {first // shared * second}"


def _prime_factorization(metadata: Mapping[str, Any]) -> Iterator[str]:
    number, prime = metadata["number"], 2
    while prime * prime <= number:
        if number % prime:
            prime += 1
            continue
        yield f"{number} = {prime} * {number // prime}"
        number //= prime


def _fraction_simplification(metadata: Mapping[str, Any]) -> Iterator[str]:
    above, below = metadata["numerator"], metadata["denominator"]
    yield from _euclid(above, below)
    shared = math.gcd(above, below)
    yield f"{above} / {shared} = {above // shared}"
    yield f"{below} / {shared} = {below // shared}"


_STEPS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "chain_sum": _chain_sum,
    "products": _products,
    "leg_counting": _leg_counting,
    "letter_counting": _letter_counting,
    "gcd": _gcd,
    "lcm": _lcm,
    "prime_factorization": _prime_factorization,
    "fraction_simplification": _fraction_simplification,
}
