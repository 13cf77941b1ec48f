"""Prompts that are seen once, so that there is no history to use: ``python -m research.studies.field.fresh``.

The field's task from the committed model with 24,576 problems instead of 512, more than any method asks, so that none
comes back. Methods have the settings that ``python -m research.studies.field.tune`` found where problems come back;
``ada_similar``, which expects of a prompt what prompts with like words have shown, has those of ``ada``. A study that
was killed goes on where it was. Writes ``docs/studies/cost_benefit/fresh.jsonl`` and a plot.
"""

from __future__ import annotations

import json

from research.studies.contest import Contest, main
from research.studies.field.setting import (
    FOLDER,
    HELDOUT,
    MODEL_SIZE,
    NUM_SEEDS,
    RESULTS,
    field_run,
    prepare,
    second_seeds,
)
from research.studies.field.sums import write
from research.studies.field.tune import TUNING
from research.studies.runs import ROOT, StudyRun

METHODS = (
    *("grpo_n4", "grpo_n4_4_updates", "dapo_refill", "speed_rl", "ada", "ada_4_updates"),
    *("ada_similar", "ada_similar_4_updates", "ada_similar_thinned_4_updates", "grpo_chosen_4_updates"),
)
NUM_PROBLEMS = 24_576
PROBLEMS = FOLDER / "fresh.jsonl"
MAX_TOKENS = 240_000


def prepare_fresh() -> None:
    """Make model and problems, unless they are there."""
    prepare()
    if not PROBLEMS.exists():
        lines = HELDOUT.read_bytes().splitlines()
        held_out = frozenset(json.loads(line)["prompt"] for line in lines)
        write(PROBLEMS, size=NUM_PROBLEMS, seed=4, apart_from=held_out)


def fresh_runs(num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs of each method."""
    more = (f"data.source.path={PROBLEMS.relative_to(ROOT)}",)
    return {
        method: [
            field_run("fresh", method, TUNING.tuned(method), seed=seed, max_tokens=MAX_TOKENS, points=6, more=more)
            for seed in second_seeds(num_seeds)
        ]
        for method in METHODS
    }


CONTEST = Contest(
    "fresh",
    RESULTS / "fresh.jsonl",
    fresh_runs,
    NUM_SEEDS,
    picture=RESULTS / "curves_fresh.png",
    title=f"{MODEL_SIZE}, prompts seen once",
    shown=("grpo_n4", "grpo_n4_4_updates", "grpo_chosen_4_updates", "ada_4_updates", "ada_similar_thinned_4_updates"),
    unseen_seeds=(6, 7),  # ran after everything was settled
)

if __name__ == "__main__":
    main(str(__doc__), [CONTEST], prepare=prepare_fresh)
