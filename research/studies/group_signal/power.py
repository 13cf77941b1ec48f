"""Statistical power: responses needed for a signal with a given chance, at one pass rate."""

from __future__ import annotations

import math


def group_size_for(pass_rate: float, chance: float) -> int:
    """Smallest n with ``1 - p^n - q^n`` of at least ``chance``.

    Example:
        >>> group_size_for(0.1, 0.9)  # 0.9^22 = 0.098
        22
    """
    if not (0 < pass_rate < 1 and 0 < chance < 1):
        raise ValueError(f"pass rate and chance must be in (0, 1); got {pass_rate} and {chance}")
    likely, miss = max(pass_rate, 1 - pass_rate), 1 - chance
    size = max(2, math.ceil(math.log(miss) / math.log(likely)) - 1)  # the rarer class only ever adds to it
    while pass_rate**size + (1 - pass_rate) ** size > miss:
        size += 1
    return size


def sequential_responses(pass_rate: float, largest: int, block: int) -> float:
    """Expected responses, in blocks, until a prompt has a right and a wrong one, or ``largest``.

    After m responses it is open with chance ``p^m + q^m``, so ``E[N] = M (1 + sum_j p^(jM) + q^(jM))`` over the blocks
    before the last. It misses exactly the prompts that a group of ``largest`` misses.

    Example:
        >>> sequential_responses(0.5, largest=2, block=1)
        2.0
        >>> round(sequential_responses(0.1, largest=1000, block=1), 3)  # 1/p + 1/q - 1
        10.111
    """
    expected = 0.0
    for drawn in range(0, largest, block):
        is_open = 1.0 if drawn == 0 else pass_rate**drawn + (1 - pass_rate) ** drawn
        expected += min(block, largest - drawn) * is_open
    return expected


def saving_limit(chance: float) -> float:
    """Group size over expected sequential responses for the same chance t of a signal, as the pass rate goes to 0 or 1.

    The group needs ``ln(1/(1-t)) / p`` responses, one at a time until the signal ``t / p``.

    Example:
        >>> round(saving_limit(0.9), 2)
        2.56
    """
    return math.log(1 / (1 - chance)) / chance


def blind_below(size: int) -> float:
    """Pass rate below which (and, mirrored, above which) half of all groups of this size or more have no signal.

    Example:
        >>> round(blind_below(4), 3)
        0.159
    """
    if size < 3:
        raise ValueError(f"a group needs at least 3 responses to have a signal more often than not; got {size}")
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle**size + (1 - middle) ** size > 0.5 else (low, middle)
    return high
