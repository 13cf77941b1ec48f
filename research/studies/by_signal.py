"""Which share of prompts with a signal makes choosing prompts worth a try? A table of ``docs/when_to_use.md``.

Nothing is computed anew: ``docs/choose/mixes.json`` has what GRPO and the best quarter of prompts by history (the rule
that ``ada`` follows) spend over 203 distributions of pass rates. A user sees one figure before a run, the share of
groups of four with a signal (``preview=true``), so the distributions are sorted by it.
"""

from __future__ import annotations

import json
from itertools import pairwise
from math import comb
from statistics import median

from research.benchmarks.report import markdown
from research.studies.choose import DRAWN, FILE, HISTORY

GROUP = 4
"""Responses of a group: what a preview says of GRPO."""
BOUNDS = (0.0, 0.2, 0.4, 0.6, 0.7, 1.0)
"""Of the shares that are told apart."""
RATIOS = (1.0, 3.0)
"""Cost ratios."""


def signal_share(seen: list[float]) -> float:
    """Return the share of groups of four whose rewards differ.

    Args:
        seen: chance of each number of right responses of ``DRAWN``, shape ``(DRAWN + 1,)``; four of these, drawn
            without putting back, are a group.
    """
    alike = (comb(right, GROUP) + comb(DRAWN - right, GROUP) for right in range(DRAWN + 1))
    return sum(chance * (1 - each / comb(DRAWN, GROUP)) for chance, each in zip(seen, alike, strict=True))


def costs(ratio: float) -> list[tuple[float, float]]:
    """Return, for every distribution, the share of groups with a signal and what history's choice costs over GRPO."""
    figures = json.loads(FILE.read_text())
    number, index = figures["num_grpo"], figures["experiments"].index(HISTORY)
    found = []
    for row in figures["mixes"]:
        totals = [generated + ratio * trained for generated, trained in row["spent"]]
        found.append((signal_share(row["seen"]), totals[index] / min(totals[:number])))
    return found


def table() -> str:
    """Return the costs by the share of groups with a signal."""
    rows = []
    for low, high in pairwise(BOUNDS):
        by_ratio = [[cost for share, cost in costs(ratio) if low <= share < high] for ratio in RATIOS]
        cells = (f"{median(each):.2f} ({min(each):.2f} to {max(each):.2f})" for each in by_ratio)
        rows.append([f"{low:.0%} to {high:.0%}", len(by_ratio[0]), *cells])
    ratios = (f"cost at ratio {ratio:g}: median (lowest to highest)" for ratio in RATIOS)
    return markdown(["groups of four with a signal", "distributions", *ratios], rows)
