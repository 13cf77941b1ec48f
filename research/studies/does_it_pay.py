"""The main figures of all runs: ``python -m research.studies.does_it_pay``.

GRPO on chosen prompts next to plain GRPO, in generated tokens and in seconds, from the committed rows of several
studies: prompts that are seen once and prompts that come back with the tiny model, the default model on two machines,
the controls. Nothing is trained here. The first table stands in docs/studies/cost_benefit.md, and so does the picture
that is drawn of what a factor is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from research.benchmarks.report import markdown
from research.studies.contest import Contest
from research.studies.curves import TOKENS, common_seeds, time_scale
from research.studies.curves_plot import plot_factor
from research.studies.field.controls import CONTESTS as OF_CONTROLS
from research.studies.field.fresh import CONTEST as FRESH
from research.studies.field.newer import CONTEST as NEWER
from research.studies.field.setting import RESULTS
from research.studies.methods import written
from research.studies.real_model.compare import CONTESTS as REAL_MODEL
from research.studies.real_model.compare import LEVEL
from research.studies.real_model.setting import GPU_ARMS, LONG
from research.studies.smollm2.compare import CONTESTS as SMOLLM2

SECONDS = "seconds"
_ONE, _FOUR, _CHOSEN = "grpo_n4", "grpo_n4_4_updates", "grpo_chosen_4_updates"
_BY_SPREAD = "grpo_chosen_by_spread"


@dataclass(frozen=True)
class Case:
    """A row: one method next to GRPO in one study."""

    title: str
    """Model and prompts."""
    contest: Contest
    method: str
    """As the study names it."""
    bases: Mapping[str, str]
    """By cost, the GRPO that it is compared with."""
    level: float = 0.95
    """Of the intervals."""


MAIN: Sequence[Case] = (
    Case("tiny model, prompts seen once", FRESH, _CHOSEN, {TOKENS: _ONE, SECONDS: _FOUR}),
    Case("tiny model, prompts come back", NEWER, _CHOSEN, {TOKENS: _FOUR, SECONDS: _FOUR}),
    Case(
        "135M model, prompts seen once, one GPU",
        REAL_MODEL[GPU_ARMS.name],
        _BY_SPREAD,
        {TOKENS: _ONE, SECONDS: _ONE},
        LEVEL,
    ),
    Case("135M model, prompts seen once, CPU", REAL_MODEL[LONG.name], _BY_SPREAD, {TOKENS: _ONE, SECONDS: _ONE}, LEVEL),
)
_CONTROL = {contest.name: contest for contest in OF_CONTROLS}
CONTROLS: Sequence[Case] = (
    Case("prompts seen once, constant learning rate", FRESH, _CHOSEN, {TOKENS: _ONE}),
    Case("prompts seen once, falling rate", _CONTROL["decay"], _CHOSEN, {TOKENS: _FOUR}),
    Case("prompts seen once, words of other prompts", _CONTROL["blind"], _CHOSEN, {TOKENS: _FOUR}),
    Case("prompts seen once, few large updates", _CONTROL["few_updates"], "grpo_chosen", {TOKENS: _ONE}),
    Case("prompts come back, falling rate", NEWER, _CHOSEN, {TOKENS: _FOUR}),
)
DEFAULT_MODEL: Sequence[Case] = tuple(
    Case(contest.name.replace("chain_sum", "sums"), contest, _CHOSEN, {TOKENS: _ONE, SECONDS: _FOUR})
    for contest in SMOLLM2
)


def table(cases: Sequence[Case] = MAIN) -> str:
    """Return how many times fewer tokens and seconds ``grpo_chosen`` needs than GRPO, a row for each case.

    Raises:
        NotTunedError: committed rows of a study's grid are missing.
    """
    rows = []
    for case in cases:
        found = case.contest.known()
        runs = found[case.method]
        factors = [time_scale(found[base], runs, cost, level=case.level) for cost, base in case.bases.items()]
        pairs = len(common_seeds(found[case.bases[TOKENS]], runs))
        interval = "none" if math.isnan(factors[0].low) else f"{100 * case.level:g} %"
        rows.append([case.title, *(factor.written(".2f") for factor in factors), f"{pairs}, {interval}"])
    costs = [cost.replace("_", " ") for cost in cases[0].bases]
    return markdown(["`grpo_chosen`, times fewer than GRPO", *costs, "pairs of runs, interval"], rows)


def draw() -> None:
    """Draw what the first factor of the table is."""
    case = MAIN[0]
    found, base = case.contest.known(), case.bases[TOKENS]
    plot_factor(
        found[base],
        found[case.method],
        TOKENS,
        RESULTS / "factor.png",
        names=(written(base), written(case.method)),
        rate=case.contest.rate,
        title=f"{case.contest.title}, mean of {case.contest.num_seeds} seeds",
    )


if __name__ == "__main__":
    print(table(), end="")
    draw()
