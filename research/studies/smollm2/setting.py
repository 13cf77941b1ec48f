"""What all runs of the default model share: model, tasks, evaluation, budget."""

from __future__ import annotations

from research.studies.field.methods import METHODS
from research.studies.field.setting import QUIET
from research.studies.runs import StudyRun

TASKS = ("chain_sum", "products")
CONTESTANTS = (
    "grpo_n4",
    "grpo_n4_4_updates",
    "grpo_chosen_4_updates",
    "ada_similar_4_updates",
    "ada_similar_thinned_4_updates",
)
"""The two kinds of GRPO that did best in the field, and the three methods that did best where prompts are seen once:
GRPO on the prompts that ``ada_similar`` chooses, and ``ada_similar``, also with fewer tokens trained. ``ada`` itself
ended where GRPO does in tuning, and trained on all it drew."""
NUM_TRAIN = 256
"""Few enough that each comes back several times in a run, as prompts do in a long one: a memory needs that."""


def smollm2_run(
    study: str, task: str, method: str, *, seed: int, lr: float, prompts: int, max_tokens: int, points: int
) -> StudyRun:
    """Return a run of a method on a task with its two tuned settings."""
    contestant = METHODS[method]
    overrides = (
        f"data/source/tasks={task}",
        f"data.source.num_train={NUM_TRAIN}",
        *contestant.settings,
        f"optimizer.lr={lr:g}",
        f"data.prompts_per_step={prompts * contestant.updates}",
        *([f"data.num_minibatches={contestant.updates}"] if contestant.updates > 1 else []),
        "num_steps=100000",
        f"callbacks.budget.max_generated_tokens={max_tokens}",
        f"callbacks.evaluation.every_n_tokens={max_tokens // points}",
        "callbacks.evaluation.every_n_steps=0",
        "callbacks.evaluation.num_prompts=128",
        "callbacks.checkpoint.every_n_steps=10",
        *QUIET,
    )
    label = f"{task}-{method}-lr{lr:g}-p{prompts}"
    return StudyRun(f"{study}/{task}", contestant.experiment, seed, overrides, label=label)
