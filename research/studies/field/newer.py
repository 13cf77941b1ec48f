"""The methods since, all with a learning rate that falls: ``python -m research.studies.field.newer``.

SPO, the rarer class alone, division by tokens and Prompt Replay beside GRPO, GRPO on chosen prompts and ``ada``, on the
field's 512 problems that come back, since four of them live by history. The learning rate of everyone falls linearly to
0 over the budget, so nobody gains by a lower floor of noise at the end of a run, and everyone makes four updates of
each rollout (SPO's own settings: eight). ``--tune`` trains the grids first: the same learning rates and responses per
update for each of them, on a seed that the comparison does not use. SPO starts where it knows nothing.

A study that was killed goes on where it was. Writes ``docs/studies/cost_benefit/newer_tuning.jsonl`` and
``newer.jsonl``, and a plot.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product

from research.studies import contest
from research.studies.contest import Contest
from research.studies.curves import TOKENS
from research.studies.field.setting import FLOAT32, MODEL_SIZE, NUM_SEEDS, RESULTS, field_run, prepare, second_seeds
from research.studies.methods import Settings
from research.studies.runs import StudyRun
from research.studies.tuning import Tuning

GRPO = "grpo_n4_4_updates"
OF_FOUR = (GRPO, "grpo_chosen_4_updates", "ada_4_updates", "token_division_4_updates", "prompt_replay_4_updates")
"""Methods that draw four responses a prompt, in the mean."""
OF_ONE = ("spo_4_updates", "rarer_class_4_updates")
RATES = (5e-5, 1e-4, 2e-4, 4e-4)
RESPONSES = (32, 64)
"""Per update."""
TUNING_SEED = 103
MAX_TOKENS = 240_000
"""Of the grid and of the comparison: a rate that falls over a budget is tuned for that budget."""
DECAY = ("optimizer/schedule=linear", FLOAT32)


def newer_run(study: str, method: str, settings: Settings, *, seed: int, points: int) -> StudyRun:
    """Return a run with a falling learning rate."""
    return field_run(f"newer/{study}", method, settings, seed=seed, max_tokens=MAX_TOKENS, points=points, more=DECAY)


def tuning_run(method: str, settings: Settings) -> StudyRun:
    """Return a run of a grid."""
    return newer_run("tuning", method, settings, seed=TUNING_SEED, points=6)


def grid(per_prompt: int) -> list[Settings]:
    """Return the settings that are tried of a method that draws so many responses a prompt."""
    return [Settings(rate, responses // per_prompt) for rate, responses in product(RATES, RESPONSES)]


TUNING = Tuning(
    RESULTS / "newer_tuning.jsonl",
    "python -m research.studies.field.newer --tune",
    dict.fromkeys(OF_FOUR, grid(4)) | dict.fromkeys(OF_ONE, grid(1)),
    tuning_run,
    prepare=prepare,
)


def newer_runs(num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs of each method."""
    return {
        method: [
            newer_run("runs", method, TUNING.tuned(method), seed=seed, points=8) for seed in second_seeds(num_seeds)
        ]
        for method in TUNING.grids
    }


CONTEST = Contest(
    "newer",
    RESULTS / "newer.jsonl",
    newer_runs,
    NUM_SEEDS,
    picture=RESULTS / "curves_newer.png",
    title=f"{MODEL_SIZE}, prompts come back, the learning rate falls to 0",
    shown=(GRPO, "grpo_chosen_4_updates", "ada_4_updates", "rarer_class_4_updates", "spo_4_updates"),
    comparator={TOKENS: GRPO, "trained_tokens": GRPO, "seconds": GRPO},
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the grids (``--tune``) or the comparison."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--tune" in given:
        TUNING.main(str(__doc__), [each for each in given if each != "--tune"])
    else:
        contest.main(str(__doc__), [CONTEST], given, prepare=prepare)


if __name__ == "__main__":
    main()
