"""Learning rate on SmolLM2-135M-Instruct and the task of ``make train``: ``python -m research.studies.smollm2.tune``.

One run of each setting with a seed that the comparison does not use. Two at once take up to 8 GB each. Writes
``docs/studies/cost_benefit/smollm2_tuning.jsonl``.
"""

from __future__ import annotations

from research.studies.field.setting import RESULTS
from research.studies.methods import Settings, budget_run
from research.studies.runs import StudyRun
from research.studies.tuning import Tuning

NUM_TRAIN = 256
"""Few enough that each comes back several times in a run, as prompts do in a long one: a memory needs that."""
MAX_TOKENS = 60_000
SMALL, LARGE = (3e-6, 1e-5, 3e-5), (1e-5, 3e-5)
"""Learning rates for 32 responses per update, and for 128: the best for 32 was at the lower edge of the first two."""
WHOLE = (*((lr, 8) for lr in SMALL), *((lr, 32) for lr in LARGE))
GRIDS = {"grpo_n4": WHOLE, "ada": WHOLE, "grpo_n4_4_updates": WHOLE[:2]}
"""32 and 128 responses per update; with four updates per rollout 32, since 4 times 128 would leave a run of this length
five rollouts, and rates up to the best of one update."""


def smollm2_run(study: str, task: str, method: str, settings: Settings, *, seed: int, points: int) -> StudyRun:
    """Return a run of a method on a task with its tuned settings."""
    return budget_run(
        f"{study}/{task}",
        method,
        settings,
        seed=seed,
        max_tokens=MAX_TOKENS,
        points=points,
        task=(f"data/source/tasks={task}", f"data.source.num_train={NUM_TRAIN}"),
        checkpoint_steps=10,
        prefix=f"{task}-",
    )


def tuning_run(method: str, settings: Settings) -> StudyRun:
    """Return a run of a grid."""
    return smollm2_run("smollm2/tuning", "chain_sum", method, settings, seed=100, points=5)


TUNING = Tuning(
    RESULTS / "smollm2_tuning.jsonl",
    "python -m research.studies.smollm2.tune",
    {method: [Settings(*each) for each in grid] for method, grid in GRIDS.items()},
    tuning_run,
    discard_checkpoints=True,
)

if __name__ == "__main__":
    TUNING.main(str(__doc__))
