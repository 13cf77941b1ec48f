"""Does adaptive sampling pay? Tuned methods on several seeds: ``python -m research.studies.field.compare``.

Each method runs with the settings that ``python -m research.studies.field.tune`` found for it, to the same number of
generated tokens, longer than it was tuned for. There are two starting models, made by one command on two machines: all
methods ran from the first, which is lost; from the committed one run GRPO and those that did best there, tuned anew, so
that the first chose what the second tests, and SPEED, which by exact sums is the cheapest rule without a memory. A
study that was killed goes on where it was. Writes ``docs/studies/cost_benefit/runs.jsonl`` and a plot.
"""

from __future__ import annotations

from research.studies.contest import Contest, main
from research.studies.field.setting import FIRST_SEEDS, MODEL_SIZE, NUM_SEEDS, RESULTS, field_run, prepare, second_seeds
from research.studies.field.tune import TUNING
from research.studies.methods import GRPO, Settings
from research.studies.runs import StudyRun

FIRST = {
    **dict.fromkeys(("grpo_n4", "grpo_n4_4_updates", "grpo_n8", "ada_seq_pos_official"), Settings(1e-4, 4)),
    **dict.fromkeys(("grpo_n16", "dapo_refill", "pods"), Settings(1e-4, 8)),
    "vip": Settings(3e-5, 8),
    **dict.fromkeys(("ada_seq_balance_official", "ada_est_ema", "ada"), Settings(1e-4, 8)),
    **dict.fromkeys(("ada_n1", "ada_n1_4_updates"), Settings(1e-4, 32)),
}
"""What was best on the first model, by grids on a seed of their own, which went with it."""
SECOND = (*GRPO, "dapo_refill", "speed_rl", "ada", "ada_4_updates", "ada_n1", "ada_n1_4_updates")


def comparison_run(method: str, settings: Settings, seed: int) -> StudyRun:
    """Return a run; the seed says from which model."""
    return field_run("runs", method, settings, seed=seed, max_tokens=480_000, points=12)


def first_runs(num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs from the first model, by method."""
    return {
        method: [comparison_run(method, settings, seed) for seed in FIRST_SEEDS[:num_seeds]]
        for method, settings in FIRST.items()
    }


def second_runs(num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs from the committed model, by method."""
    return {
        method: [comparison_run(method, TUNING.tuned(method), seed) for seed in second_seeds(num_seeds)]
        for method in SECOND
    }


CONTESTS = (
    Contest("first", RESULTS / "runs.jsonl", first_runs, len(FIRST_SEEDS), is_closed=True),
    Contest(
        "second",
        RESULTS / "runs.jsonl",
        second_runs,
        NUM_SEEDS,
        picture=RESULTS / "curves_second.png",
        title=f"{MODEL_SIZE}, prompts come back",
        shown=("ada_4_updates", "ada", "ada_n1_4_updates", "grpo_n4", "grpo_n4_4_updates"),
    ),
)

if __name__ == "__main__":
    main(str(__doc__), CONTESTS, prepare=prepare)
