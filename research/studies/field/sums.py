"""The task of the field: sums of one- and two-digit numbers, worked out from left to right."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reasoning_gym.arithmetic import ChainSumConfig, ChainSumDataset


@dataclass(frozen=True)
class Mixture:
    """Two kinds of sums, as reasoning-gym's ``chain_sum`` is told of them."""

    easy: Mapping[str, int]
    hard: Mapping[str, int]
    share_of_hard: float


def _sums(terms: tuple[int, int], digits: int) -> Mapping[str, int]:
    return {"min_terms": terms[0], "max_terms": terms[1], "min_digits": digits, "max_digits": digits}


FIELD = Mixture(easy=_sums((2, 8), 1), hard=_sums((2, 4), 2), share_of_hard=0.3)
ALIKE = Mixture(easy=_sums((6, 7), 1), hard=_sums((6, 7), 1), share_of_hard=0.0)
"""Of which the committed model gets about one in ten right, whichever it is."""
WIDE = Mixture(easy=_sums((2, 3), 1), hard=_sums((3, 4), 2), share_of_hard=0.4)
"""Of which the committed model gets some nearly always right, some now and then, and four in ten hardly ever."""


def problems(*, size: int, seed: int, mixture: Mixture = FIELD) -> Iterator[tuple[str, str]]:
    """Yield expressions and their values, such as ``("12+3-40", "-25")``; the same seed gives the same ones.

    They are reasoning-gym's ``chain_sum`` without the sentence around them and without spaces. In the field seven in
    ten have one-digit numbers and 2 to 8 terms, three in ten two-digit numbers and 2 to 4 terms.
    """
    easy = iter(ChainSumDataset(ChainSumConfig(**mixture.easy, seed=seed, size=size)))
    hard = iter(ChainSumDataset(ChainSumConfig(**mixture.hard, seed=seed, size=size)))
    draw = random.Random(seed)
    for _ in range(size):
        item = next(hard if draw.random() < mixture.share_of_hard else easy)
        yield item["metadata"]["expression"].replace(" ", ""), item["answer"]


def worked(expression: str, mistakes: random.Random) -> str:
    """Return the sum worked out term by term, with the slips of a careless writer.

    A model that has learned from such texts knows how sums go and often writes something else, as a pretrained model
    does; what it has to learn by reward is care. Subtractions and large numbers go wrong more often, so pass rates
    differ from prompt to prompt. A writer who has slipped goes on from the wrong value.

    Example:
        >>> worked("12+3-40", random.Random(0))
        '12+3=15-40=-25'
        >>> worked("12+3-40", random.Random(3))
        '12+3=15-40=-17'
    """
    first, *changes = re.findall(r"[+-]?\d+", expression)
    value, text = int(first), first
    for change in changes:
        value += int(change)
        if mistakes.random() < slip_probability(change):
            value += mistakes.choice([-1, 1]) * mistakes.randint(1, 9)
        text += f"{change}={value}"
    return text


def slip_probability(change: str) -> float:
    """Return how often a term such as ``-7`` is got wrong.

    Example:
        >>> [slip_probability(change) for change in ("+3", "-3", "+12", "-40")]
        [0.1, 0.4, 0.4, 0.6]
    """
    is_large, is_minus = len(change) > 2, change.startswith("-")
    return {(False, False): 0.1, (False, True): 0.4, (True, False): 0.4, (True, True): 0.6}[is_large, is_minus]


def write(
    path: Path, *, size: int, seed: int, apart_from: frozenset[str] = frozenset(), mixture: Mixture = FIELD
) -> frozenset[str]:
    """Write ``size`` different problems as JSON lines of ``prompt`` and ``answer``; return their expressions."""
    chosen: dict[str, str] = {}
    for expression, answer in problems(size=4 * size, seed=seed, mixture=mixture):
        if expression not in apart_from and len(chosen) < size:
            chosen[expression] = answer
    lines = [json.dumps({"prompt": expression, "answer": answer}) for expression, answer in chosen.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return frozenset(chosen)
