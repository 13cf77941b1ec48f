"""What to take for one's own pass rates and price: ``python -m research.studies.choose``.

The figures of ``docs/when_to_use.md`` are of five mixes of pass rates. Here are the same exact sums (scores of unit
norm, responses of equal length) for a grid of mixes, so that the page ``docs/choose`` can find the one under which the
counts of right responses that ``prepare.py`` shows are likeliest, and say what each rule costs there. Everything that
is decided is decided here; the page looks it up. Writes ``docs/choose/mixes.json`` (minutes on one core).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta, binom

from research.benchmarks.report import DOCS, header
from research.benchmarks.simulation.pass_rates import MIXES, Mix
from research.studies.variance.exact import figures_of_mix
from research.studies.variance.files import rounded
from research.studies.variance.history import PLANS, planned_moments
from research.studies.variance.rules import RULES
from research.studies.variance.update_moments import update_moments, weights_of
from research.studies.when_to_use import GRPO, SHOWN, Case

FILE = DOCS / "choose" / "mixes.json"
DRAWN = 16
"""Responses of each prompt whose right ones are counted: what ``prepare.py`` draws."""
NAMED = {"step 50": "low and alike", "step 400": "as in Reinforce-Ada", "wide": "wide"}
MEANS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 0.9)
"""Of the Beta distribution."""
CORRELATIONS = (0.005, 0.03, 0.1, 0.25, 0.5)
"""Of two responses to one prompt, 1 / (alpha + beta + 1): how far pass rates are apart."""
ATOMS = ((0.0, 0.0), (0.05, 0.05), (0.35, 0.0), (0.0, 0.35))
"""Shares of prompts that are never and always solved, besides."""
PRICES = np.geomspace(0.05, 100.0, 331)
BALANCE, HISTORY = "ada_seq_balance advantage=official", "ada"
ALIKE, LOW = 2.0, 0.3
"""Most that the upper tenth of pass rates is of the lower one, and the largest mean, of "low and alike"."""
SAVES = 0.9
"""Cost at which a rule is taken that sums alone speak for."""


def mixes() -> Iterator[tuple[str, Mix]]:
    """Yield the mixes of ``docs/when_to_use.md`` by name, then those of the grid without one."""
    for key, name in NAMED.items():
        yield name, MIXES[key]
    for (never, always), mean, correlation in product(ATOMS, MEANS, CORRELATIONS):
        strength = 1.0 / correlation - 1.0
        yield "", Mix(never, always, mean * strength, (1.0 - mean) * strength)


def seen(mix: Mix) -> list[float]:
    """Return the chance of each number of right responses of :data:`DRAWN`, of a random prompt. Shape ``(17,)``."""
    rates_P, weights_P = mix.grid(), weights_of(mix)
    return [float(weights_P @ binom.pmf(count, DRAWN, rates_P)) for count in range(DRAWN + 1)]


def case_of(name: str, mix: Mix, ends: dict[str, Any]) -> Case:
    """Return what GRPO's group sizes and every rule shown spend over a mix.

    Args:
        name: of the case.
        mix: of pass rates.
        ends: the ends of every rule without a memory, made once.
    """
    spent = {}
    for rule in (*GRPO, *SHOWN):
        moments = (
            update_moments(ends[rule], mix.grid()) if rule in ends else planned_moments(PLANS[rule](mix), mix.grid())
        )
        figures = figures_of_mix(moments, mix)
        spent[rule] = (figures["generated_cost"], figures["trained_cost"])
    return Case(name, spent)


def is_low_and_alike(mix: Mix) -> bool:
    """Whether the pass rates of a mix, apart from 0 and 1, are low and nearly all within a factor of two."""
    lower, upper = (float(beta.ppf(share, mix.alpha, mix.beta)) for share in (0.1, 0.9))
    return mix.alpha / (mix.alpha + mix.beta) <= LOW and upper <= ALIKE * lower


def decisions(case: Case, low_and_alike: bool) -> list[tuple[float, str]]:
    """Return what to take for prompts that come back many times, by the prices from which it is.

    ``ada`` where it costs less than the best GRPO, which runs of a tiny model bear out. Seq-balance only where pass
    rates are low and alike and it saves a tenth, since it ended below GRPO in runs on other prompts; else GRPO.
    """
    rule_of = {experiment: rule for rule, experiment in SHOWN.items()}
    found: list[tuple[float, str]] = []
    for price in PRICES:
        taken = "grpo"
        if case.cost(rule_of[HISTORY], float(price)) < 1.0:
            taken = HISTORY
        elif low_and_alike and case.cost(rule_of[BALANCE], float(price)) < SAVES:
            taken = BALANCE
        if not found or found[-1][1] != taken:
            found.append((float(price), taken))
    return [(0.0, found[0][1]), *found[1:]]


def figures(chosen: Sequence[tuple[str, Mix]]) -> dict[str, Any]:
    """Return the content of the page's file for these mixes."""
    ends = {rule: make() for rule, make in RULES.items() if rule in (*GRPO, *SHOWN)}
    rows = []
    for name, mix in chosen:
        case = case_of(name, mix, ends)
        rows.append(
            {
                "name": name,
                "never": mix.never,
                "always": mix.always,
                "mean": mix.alpha / (mix.alpha + mix.beta),
                "middle": [float(beta.ppf(share, mix.alpha, mix.beta)) for share in (0.1, 0.9)],
                "seen": seen(mix),
                "spent": [list(case.spent[rule]) for rule in (*GRPO, *SHOWN)],
                "take": decisions(case, is_low_and_alike(mix)),
            }
        )
    return {
        "drawn": DRAWN,
        "prices": [float(PRICES[0]), float(PRICES[-1])],
        "experiments": ["grpo sampler.group_size=4", "grpo sampler.group_size=8", "grpo_n16", *SHOWN.values()],
        "num_grpo": len(GRPO),
        "mixes": rounded(rows, digits=4),
    }


def save(content: dict[str, Any], path: Path = FILE) -> None:
    """Write the file, a line each mix."""
    whole = header("research.studies.choose") | content
    parts = [
        f" {json.dumps(key)}: {_lines(value) if key == 'mixes' else json.dumps(value)}" for key, value in whole.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in rows) + "\n ]"


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    save(figures(list(mixes())))
