"""What a rule of counts would have drawn of a group's responses: averages over all orders of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

from ada_lightning.core.stopping.paths import ends, reach
from ada_lightning.core.stopping.rule import StoppingRule


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule is expected to draw for one group."""

    positives: float
    """Expected number of them."""
    negatives: float
    signal: float
    """Chance that both classes are there at the end."""
    rows: float
    """Responses that train where all of a group with both classes do."""
    comparisons: float
    """Effective comparisons of a right response with a wrong one, ``E[a b / (a + b)]``: how sharply the group tells the
    direction from wrong to right, since the difference of two class means has the variance ``1/a + 1/b``. Also the sum
    of squared rewards after taking off their mean. Of n responses to a prompt ``(n - 1) p q``."""
    responses_beyond: float = 0.0
    """Responses past those of the log."""
    signal_beyond: float = 0.0
    """Part of :attr:`signal` that the responses of the log do not have."""


@lru_cache(maxsize=65536)
def exact_outcome(rule: StoppingRule, num_positive: int, num_negative: int) -> Outcome:
    """Return what a rule draws of a group's own responses, averaged over all of their orders.

    Where the group has fewer responses than the rule would draw, the orders in which it goes on are left out: the
    chances of its ends then sum to less than 1.

    Args:
        rule: of counts.
        num_positive: positives of the group.
        num_negative: negatives of the group.

    Example:
        >>> from ada_lightning.core.stopping import FixedRule
        >>> round(exact_outcome(FixedRule(2), 2, 2).signal, 6)  # 4 of the 6 pairs hold one of each
        0.666667
    """
    total = num_positive + num_negative
    orders = comb(total, num_positive)
    paths = reach(rule)
    positives = negatives = signal = rows = comparisons = 0.0
    for a, b in ends_of(rule):
        if a > num_positive or b > num_negative:
            continue
        chance = float(paths[a, b]) * 2.0 ** (a + b) * (comb(total - a - b, num_positive - a) / orders)
        positives, negatives = positives + chance * a, negatives + chance * b
        if a and b:
            signal, rows = signal + chance, rows + chance * (a + b)
            comparisons += chance * a * b / (a + b)
    return Outcome(positives, negatives, signal, rows, comparisons)


@lru_cache(maxsize=1024)
def ends_of(rule: StoppingRule) -> tuple[tuple[int, int], ...]:
    """Return the counts at which a rule may end; kept, since they are asked for again and again."""
    return tuple(ends(rule))
