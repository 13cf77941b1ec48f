"""What every run of the study shares: start, prompts, held-out set, engine, schedule; and the arms."""

from __future__ import annotations

from collections.abc import Mapping

from research.benchmarks.report import DOCS
from research.studies.methods import METHODS, Method, Settings, budget_run
from research.studies.runs import ROOT, StudyRun

START = ROOT / "runs" / "real_model" / "start"
"""The checkpoint that ``python -m research.studies.real_model.warm_up`` makes."""
RESULTS = DOCS / "studies" / "real_model"
NUM_TRAIN, NUM_HELDOUT = 4_096, 512
"""Prompts: more than any run goes through, so that none comes back."""
SEED_OF_PROMPTS = 0
"""One set of prompts and one held-out set for all runs; a run's seed orders the first and draws every response."""
MAX_NEW_TOKENS, MAX_PROMPT_TOKENS = 112, 96
ARMS: Mapping[str, Method] = {
    "grpo_n4": METHODS["grpo_n4"],
    "grpo_chosen": Method("grpo_chosen"),
    "ada_similar_thinned": Method("ada_similar", ("selection=thinned",)),
    "grpo_oracle": Method(
        "grpo",
        (
            *METHODS["grpo_n4"].settings,
            "--config-dir=research/studies/real_model/conf",
            "estimator=measured",
            "curriculum=expected",
            "+callbacks.oracle={_target_: research.studies.real_model.oracle.Oracle}",
        ),
    ),
    "dapo_refill": Method("grpo", ("sampler.group_size=4", "refill=dynamic", "loss/reduction=token_mean")),
    "rarer_class": Method("rarer_class"),
}
"""By name. Prompts per update are those of groups of four; ``rarer_class``, which draws one response of each, has four
times as many."""


def task_settings() -> tuple[str, ...]:
    """Return the settings of model, data and engine."""
    return (
        "model=pretrained",
        f"model.path={START.relative_to(ROOT)}",
        "data/source/tasks=eight",
        f"data.source.num_train={NUM_TRAIN}",
        f"data.source.num_heldout={NUM_HELDOUT}",
        f"data.source.seed={SEED_OF_PROMPTS}",
        f"data.max_prompt_tokens={MAX_PROMPT_TOKENS}",
        "reward.reward.extraction._target_=ada_lightning.rewards.extraction.TaggedAnswer",
        "+reward.reward.extraction.tag=a",
        f"rollout.sampling.max_new_tokens={MAX_NEW_TOKENS}",
        f"rollout.max_model_tokens={MAX_PROMPT_TOKENS + MAX_NEW_TOKENS}",
        "optimizer/schedule=linear",
    )


def arm_run(study: str, arm: str, settings: Settings, *, seed: int, max_tokens: int, points: int) -> StudyRun:
    """Return a run of an arm; arguments as of :func:`~research.studies.methods.budget_run`."""
    per_update = settings.prompts * (4 if arm == "rarer_class" else 1)
    more = (
        f"data.prompts_per_step={per_update}",
        f"callbacks.evaluation.num_prompts={NUM_HELDOUT}",
        "callbacks.evaluation.num_samples=1",
    )
    return budget_run(
        study,
        arm,
        settings,
        seed=seed,
        max_tokens=max_tokens,
        points=points,
        task=task_settings(),
        more=more,
        checkpoint_steps=10,
        methods=ARMS,
    )
