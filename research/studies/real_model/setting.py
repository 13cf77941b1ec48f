"""What every run of the study shares: start, prompts, held-out set, engine, schedule; the arms, and the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from research.benchmarks.report import DOCS
from research.studies.methods import METHODS, Method, Settings, budget_run
from research.studies.runs import ROOT, StudyRun

START = ROOT / "runs" / "real_model" / "start"
"""The checkpoint that ``python -m research.studies.real_model.warm_up`` makes."""
RESULTS = DOCS / "studies" / "real_model"
NUM_HELDOUT = 512
SEED_OF_PROMPTS = 0
"""One set of prompts and one held-out set for all runs; a run's seed orders the first and draws every response."""
MAX_NEW_TOKENS, MAX_PROMPT_TOKENS = 112, 96
ARMS: Mapping[str, Method] = {
    "grpo_n4": METHODS["grpo_n4"],
    "grpo_chosen": Method("grpo_chosen"),
    "grpo_chosen_by_spread": Method("grpo_chosen", ("estimator.spread_scale=0.1",)),
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
    "auto": Method("auto"),
}
"""By name. Prompts per update are those of groups of four; ``rarer_class``, which draws one response of each, has four
times as many."""


@dataclass(frozen=True)
class Stage:
    """One size of the comparison."""

    name: str
    arms: tuple[str, ...]
    num_train: int
    """Prompts: more than any run goes through, so that none comes back."""
    prompts: int
    """Per update."""
    rates: tuple[float, ...]
    """Learning rates among which every arm of ``tuned`` is tuned."""
    tuned: tuple[str, ...]
    """Arms with rates of their own; the others take those of ``grpo_n4``. None: the stage takes those of ``LONG``."""
    tuning_tokens: int
    """Generated tokens of a run of the tuning, with an evaluation after each part of so many ``tuning_points``."""
    tuning_points: int
    max_tokens: int
    """Generated tokens of a run that counts; ``points`` as of the tuning."""
    points: int
    machine: tuple[str, ...] = ()
    """Settings of trainer and engine that are not the defaults."""
    heldout_samples: int = 1
    """Responses of each held-out prompt, at every evaluation."""

    @property
    def folder(self) -> str:
        """Where its runs are."""
        return f"real_model/{self.name}"

    @property
    def results(self) -> Path:
        """File of the runs that count."""
        return RESULTS / f"{self.name}.jsonl"

    @property
    def tuning_results(self) -> Path:
        """File of the tuning."""
        return RESULTS / f"{self.name}_tuning.jsonl"


_OF_THE_FIRST = tuple(arm for arm in ARMS if arm not in ("grpo_chosen_by_spread", "auto"))
FIRST = Stage(
    name="first",
    arms=_OF_THE_FIRST,
    num_train=4_096,
    prompts=8,
    rates=(1e-5, 1.7e-5, 3e-5),
    tuned=_OF_THE_FIRST,
    tuning_tokens=40_000,
    tuning_points=2,
    max_tokens=60_000,
    points=4,
)
LONG = Stage(
    name="long",
    arms=("grpo_n4", "grpo_chosen", "grpo_chosen_by_spread"),
    num_train=5_632,
    prompts=32,
    rates=(1e-5, 1.7e-5, 3e-5),
    tuned=("grpo_n4",),
    tuning_tokens=280_000,
    tuning_points=7,
    max_tokens=280_000,
    points=7,
)
GPU = replace(
    LONG,
    name="gpu",
    arms=("grpo_n4", "grpo_oracle"),
    tuned=(),
    machine=(
        "trainer=gpu",
        "rollout=transformers",
        "rollout.engine.max_num_seqs=512",  # the oracle measures as many responses a step; an evaluation has them, too
        "callbacks.checkpoint.every_n_steps=100000",  # a run takes minutes; its checkpoint is 1.6 GB
    ),
)
"""``LONG`` on one GPU, in minutes a run, with another engine: the ceiling."""
GPU_ARMS = replace(
    GPU,
    name="gpu_arms",
    arms=("grpo_n4", "grpo_chosen_by_spread", "dapo_refill", "ada_similar_thinned", "rarer_class"),
)
"""The arms that pay for what they know, with GRPO's runs again: whether the start would be the same was not known."""
STAGES: Mapping[str, Stage] = {stage.name: stage for stage in (FIRST, LONG, GPU, GPU_ARMS)}


def task_settings(num_train: int = FIRST.num_train) -> tuple[str, ...]:
    """Return the settings of model, data and engine."""
    return (
        "model=pretrained",
        f"model.path={START.relative_to(ROOT)}",
        "data/source/tasks=eight",
        f"data.source.num_train={num_train}",
        f"data.source.num_heldout={NUM_HELDOUT}",
        f"data.source.seed={SEED_OF_PROMPTS}",
        f"data.max_prompt_tokens={MAX_PROMPT_TOKENS}",
        "reward.reward.extraction._target_=ada_lightning.rewards.extraction.TaggedAnswer",
        "+reward.reward.extraction.tag=a",
        f"rollout.sampling.max_new_tokens={MAX_NEW_TOKENS}",
        f"rollout.max_model_tokens={MAX_PROMPT_TOKENS + MAX_NEW_TOKENS}",
        "optimizer/schedule=linear",
    )


def arm_run(
    stage: Stage,
    arm: str,
    settings: Settings,
    *,
    seed: int,
    is_tuning: bool = False,
    more: Sequence[str] = (),
    prefix: str = "",
) -> StudyRun:
    """Return a run of an arm, of the tuning or one that counts; ``more`` and ``prefix`` as of a budget's run."""
    per_update = settings.prompts * (4 if arm == "rarer_class" else 1)
    of_stage = (
        *stage.machine,
        f"data.prompts_per_step={per_update}",
        f"callbacks.evaluation.num_prompts={NUM_HELDOUT}",
        f"callbacks.evaluation.num_samples={stage.heldout_samples}",
    )
    return budget_run(
        f"{stage.folder}/tuning" if is_tuning else stage.folder,
        arm,
        settings,
        seed=seed,
        max_tokens=stage.tuning_tokens if is_tuning else stage.max_tokens,
        points=stage.tuning_points if is_tuning else stage.points,
        task=task_settings(stage.num_train),
        more=(*of_stage, *more),
        checkpoint_steps=10,
        prefix=prefix,
        methods=ARMS,
    )
