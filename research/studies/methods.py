"""The contestants of the studies that compare learning curves, and a run of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from research.studies.runs import StudyRun


@dataclass(frozen=True)
class Method:
    """One contestant."""

    experiment: str
    """Name in ``conf/experiment``."""
    settings: tuple[str, ...] = ()
    """What differs from that file."""
    updates: int = 1
    """Updates with one rollout, which then has as many times the prompts: an update is made of as many responses."""


class Settings(NamedTuple):
    """What is tuned of a method."""

    lr: float
    prompts: int
    """Per update."""


GRPO = ("grpo_n4", "grpo_n4_4_updates", "grpo_n8", "grpo_n16")
_N4 = ("sampler.group_size=4",)
# What experiment=ada_similar is; written out, because committed runs are found again by their settings.
_SIMILAR = ("estimator=similar_prompts", "curriculum=expected")
METHODS: Mapping[str, Method] = {
    "grpo_n4": Method("grpo", _N4),
    "grpo_n4_4_updates": Method("grpo", _N4, updates=4),
    "grpo_n8": Method("grpo", ("sampler.group_size=8",)),
    "grpo_n16": Method("grpo", ("sampler.group_size=16",)),
    # The refill alone: responses are far from the length limit, so a penalty for coming near it would change nothing.
    "dapo_refill": Method("grpo", ("sampler.group_size=8", "refill=dynamic", "loss/reduction=token_mean")),
    "pods": Method("pods"),
    "vip": Method("vip"),
    "ada_seq_pos_official": Method(
        "ada_seq_pos", ("advantage=official", "loss/reduction=token_mean", "sampler.samples_per_round=8")
    ),
    # Committed runs, which are found again by their settings, had loss.importance_cap=2 loss.dual_clip=.inf.
    "ada_seq_balance_official": Method("ada_seq_balance_official"),
    "ada_seq_balance": Method("ada_seq_balance"),
    "ada_est_ema": Method("ada_est_ema"),
    "speed_rl": Method("speed_rl"),
    "ada": Method("ada"),
    "ada_4_updates": Method("ada", updates=4),
    "ada_n1": Method("ada", ("sampler.group_size=1",)),
    "ada_n1_4_updates": Method("ada", ("sampler.group_size=1",), updates=4),
    "ada_similar": Method("ada", _SIMILAR),
    "ada_similar_4_updates": Method("ada", _SIMILAR, updates=4),
    "ada_similar_thinned_4_updates": Method("ada", (*_SIMILAR, "selection=thinned"), updates=4),
    # GRPO's groups, scaling and baseline on the prompts that ada_similar would choose: what the choice alone does.
    "grpo_chosen": Method("grpo", (*_N4, *_SIMILAR)),
    "grpo_chosen_4_updates": Method("grpo", (*_N4, *_SIMILAR), updates=4),
    # Its clocks would make a run that another machine cannot repeat; about 1 is what this model's tokens cost.
    "auto_4_updates": Method("auto", ("curriculum.cost_ratio=1",), updates=4),
    "spo_4_updates": Method("spo", updates=4),
    "rarer_class_4_updates": Method("rarer_class", updates=4),
    "token_division_4_updates": Method("token_division", ("sampler.responses_per_prompt=4",), updates=4),
    # A step there takes an eighth of all prompts or less; in the paper, where one rests for ten, a far smaller part.
    "prompt_replay_4_updates": Method("prompt_replay", (*_N4, "curriculum.cooldown=2"), updates=4),
}
SETTINGS_OF = {
    "ada_similar": "ada",
    "ada_similar_4_updates": "ada_4_updates",
    "ada_similar_thinned_4_updates": "ada_4_updates",
    "grpo_chosen_4_updates": "grpo_n4_4_updates",
    "auto_4_updates": "grpo_n4_4_updates",
}
"""Methods that take the settings of another, where they were not tuned themselves."""
_FOUR_UPDATES = "_4_updates"


def written(method: str, mark: str = "") -> str:
    """Return a method's name as pages and pictures have it; ``mark`` stands on both sides of what is code.

    Example:
        >>> written("grpo_n4_4_updates", "`"), written("ada")
        ('`grpo_n4`, 4 updates', 'ada')
    """
    name = method.removesuffix(_FOUR_UPDATES)
    return f"{mark}{name}{mark}" + (", 4 updates" if name != method else "")


QUIET = (
    "logger=csv",
    "~callbacks.preview",
    "~callbacks.sample_page",
    "~callbacks.response_log",
    "~callbacks.curves",
    "~callbacks.sampling_plots",
)
"""Without what a person would look at."""


def budget_run(
    study: str,
    method: str,
    settings: Settings,
    *,
    seed: int,
    max_tokens: int,
    points: int,
    task: Sequence[str],
    more: Sequence[str] = (),
    checkpoint_steps: int = 0,
    prefix: str = "",
    methods: Mapping[str, Method] = METHODS,
) -> StudyRun:
    """Return a run that ends at a budget of generated tokens, wasted and unused ones included.

    Args:
        study: folder of the runs.
        method: one of ``methods``.
        settings: the tuned ones.
        seed: of the run.
        max_tokens: the budget.
        points: evaluations on the way, at equal steps of it.
        task: settings of model, data and engine, before those of the method.
        more: settings after them.
        checkpoint_steps: steps between checkpoints; 0: none.
        prefix: of the run's name, where one file has several tasks.
        methods: the contestants.
    """
    contestant = methods[method]
    overrides = (
        *task,
        *contestant.settings,
        f"optimizer.lr={settings.lr:g}",
        f"data.prompts_per_step={settings.prompts * contestant.updates}",
        *([f"data.num_minibatches={contestant.updates}"] if contestant.updates > 1 else []),
        "num_steps=100000",
        f"callbacks.budget.max_generated_tokens={max_tokens}",
        f"callbacks.evaluation.every_n_tokens={max_tokens // points}",
        "callbacks.evaluation.every_n_steps=0",
        "callbacks.evaluation.num_prompts=128",
        f"callbacks.checkpoint.every_n_steps={checkpoint_steps}",
        *QUIET,
        *more,
    )
    label = f"{prefix}{method}-lr{settings.lr:g}-p{settings.prompts}"
    return StudyRun(study, contestant.experiment, seed, overrides, label=label)
