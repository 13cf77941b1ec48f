"""The best methods on the default model and two tasks: ``python -m research.studies.smollm2.compare``.

SmolLM2-135M-Instruct on sums (the task of ``make train``) and on products of numbers of one or two digits, with the
settings that ``python -m research.studies.smollm2.tune`` found. A run ends at a budget of generated tokens; two at once
take a quarter to half an hour on two cores and up to 8 GB each. A study that was killed goes on where it was, and runs
with a committed result are not repeated. Writes ``docs/studies/cost_benefit/smollm2.jsonl`` and a plot for each task.
"""

from __future__ import annotations

from functools import partial

from research.studies.contest import Contest, main
from research.studies.field.setting import RESULTS
from research.studies.runs import StudyRun
from research.studies.smollm2.tune import TUNING, smollm2_run

TASKS = {"chain_sum": "sums", "products": "products"}
"""By name, as pictures say it."""
METHODS = (
    *("grpo_n4", "grpo_n4_4_updates", "grpo_chosen_4_updates"),
    *("ada_similar_4_updates", "ada_similar_thinned_4_updates"),
)
"""The two kinds of GRPO that did best in the field, and the three methods that did best where prompts are seen once:
GRPO on the prompts that ``ada_similar`` chooses, and ``ada_similar``, also with fewer tokens trained. ``ada`` itself
ended where GRPO does in tuning, and trained on all it drew."""
SETTINGS_OF = {"ada_similar_4_updates": "ada", "ada_similar_thinned_4_updates": "ada"}
"""With one update per rollout: with four ``ada`` was not tuned here. Those of GRPO with four are the same."""


def task_runs(task: str, num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs on a task, by method."""
    return {
        method: [
            smollm2_run("smollm2", task, method, TUNING.tuned(SETTINGS_OF.get(method, method)), seed=seed, points=10)
            for seed in range(num_seeds)
        ]
        for method in METHODS
    }


CONTESTS = [
    Contest(
        task,
        RESULTS / "smollm2.jsonl",
        partial(task_runs, task),
        num_seeds=3,
        picture=RESULTS / f"smollm2_{task}.png",
        title=f"SmolLM2-135M-Instruct, {TASKS[task]}, prompts come back",
        discard_checkpoints=True,
    )
    for task in TASKS
]

if __name__ == "__main__":
    main(str(__doc__), CONTESTS)
