"""The main figures of all runs in one table: ``python -m research.studies.does_it_pay``.

GRPO on chosen prompts next to plain GRPO, in generated tokens and in seconds, from the committed rows of three studies:
prompts that are seen once and prompts that come back with the tiny model, and the default model on two machines.
Nothing is trained here. The table stands in docs/studies/cost_benefit.md, and so does the picture that is drawn of what
a factor is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from research.benchmarks.report import markdown
from research.studies.contest import Contest
from research.studies.curves import TOKENS, common_seeds, time_scale
from research.studies.curves_plot import plot_factor
from research.studies.field.fresh import CONTEST as FRESH
from research.studies.field.newer import CONTEST as NEWER
from research.studies.field.setting import RESULTS
from research.studies.methods import written
from research.studies.real_model.compare import CONTESTS as REAL_MODEL
from research.studies.real_model.compare import LEVEL
from research.studies.real_model.setting import GPU_ARMS, LONG

SECONDS = "seconds"


@dataclass(frozen=True)
class Case:
    """A row: one method next to GRPO in one study."""

    title: str
    """Model and prompts."""
    contest: Contest
    method: str
    """As the study names it."""
    of_tokens: str
    """The GRPO that tokens are compared with; then the one that seconds are."""
    of_seconds: str
    level: float = 0.95
    """Of the intervals."""


CASES: Sequence[Case] = (
    Case("tiny model, prompts seen once", FRESH, "grpo_chosen_4_updates", "grpo_n4", "grpo_n4_4_updates"),
    Case("tiny model, prompts come back", NEWER, "grpo_chosen_4_updates", "grpo_n4_4_updates", "grpo_n4_4_updates"),
    Case(
        "135M model, prompts seen once, one GPU",
        REAL_MODEL[GPU_ARMS.name],
        "grpo_chosen_by_spread",
        "grpo_n4",
        "grpo_n4",
        LEVEL,
    ),
    Case(
        "135M model, prompts seen once, CPU",
        REAL_MODEL[LONG.name],
        "grpo_chosen_by_spread",
        "grpo_n4",
        "grpo_n4",
        LEVEL,
    ),
)


def table() -> str:
    """Return how many times fewer tokens and seconds ``grpo_chosen`` needs than GRPO, a row for each case.

    Raises:
        NotTunedError: committed rows of a study's grid are missing.
    """
    rows = []
    for case in CASES:
        found = case.contest.known()
        runs = found[case.method]
        factors = [
            time_scale(found[base], runs, cost, level=case.level).written(".2f")
            for cost, base in ((TOKENS, case.of_tokens), (SECONDS, case.of_seconds))
        ]
        pairs = len(common_seeds(found[case.of_tokens], runs))
        rows.append([case.title, *factors, f"{pairs}, {100 * case.level:g} %"])
    names = ["`grpo_chosen`, times fewer than GRPO", "generated tokens", "seconds", "pairs of runs, interval"]
    return markdown(names, rows)


def draw() -> None:
    """Draw what the first factor of the table is."""
    case = CASES[0]
    found = case.contest.known()
    names = written(case.of_tokens), written(case.method)
    picture = RESULTS / "factor.png"
    plot_factor(found[case.of_tokens], found[case.method], TOKENS, picture, names=names, rate=case.contest.rate)


if __name__ == "__main__":
    print(table(), end="")
    draw()
