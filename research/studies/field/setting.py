"""What all runs of the field share: model, problems, engine, evaluation, budget."""

from __future__ import annotations

from collections.abc import Sequence

from research.studies.field.methods import METHODS
from research.studies.field.sums import write
from research.studies.field.warm_start import MODEL, prepare_model
from research.studies.runs import ROOT, StudyRun

FOLDER = ROOT / "runs" / "field"
TRAIN, HELDOUT = FOLDER / "train.jsonl", FOLDER / "heldout.jsonl"
NUM_TRAIN, NUM_HELDOUT = 512, 256
MODEL_ARGUMENTS = ("model=pretrained", f"model.path={MODEL.relative_to(ROOT)}", "data=jsonl")
ENGINE_ARGUMENTS = (
    "rollout.sampling.max_new_tokens=56",
    "rollout.max_model_tokens=128",
    "rollout.engine.dtype=float32",
    "rollout.engine.kv_cache_gib=0.25",
)
QUIET = (
    "logger=csv",
    "~callbacks.preview",
    "~callbacks.sample_page",
    "~callbacks.rollout_table",
    "~callbacks.response_log",
    "~callbacks.curves",
    "~callbacks.sampling_plots",
)
"""Without what a person would look at."""


def prepare() -> None:
    """Make model and problems, unless they are there."""
    prepare_model()
    if not (TRAIN.exists() and HELDOUT.exists()):
        held_out = write(HELDOUT, size=NUM_HELDOUT, seed=2)
        write(TRAIN, size=NUM_TRAIN, seed=1, apart_from=held_out)


def field_run(
    study: str,
    method: str,
    *,
    seed: int,
    lr: float,
    prompts: int,
    max_tokens: int,
    points: int,
    change: str = "",
    changes: Sequence[str] = (),
) -> StudyRun:
    """Return a run of a method with its two tuned settings."""
    contestant = METHODS[method]
    overrides = (
        *MODEL_ARGUMENTS,
        f"data.source.path={TRAIN.relative_to(ROOT)}",
        f"data.source.heldout_path={HELDOUT.relative_to(ROOT)}",
        f"data.source.num_heldout={NUM_HELDOUT}",
        "data.max_prompt_tokens=72",
        "data.max_tokens_per_microbatch=4096",
        "reward=exact_match",
        *ENGINE_ARGUMENTS,
        *contestant.settings,
        f"optimizer.lr={lr:g}",
        f"data.prompts_per_step={prompts * contestant.updates}",
        *([f"data.num_minibatches={contestant.updates}"] if contestant.updates > 1 else []),
        "num_steps=100000",
        f"callbacks.budget.max_generated_tokens={max_tokens}",
        f"callbacks.evaluation.every_n_tokens={max_tokens // points}",
        "callbacks.evaluation.every_n_steps=0",
        "callbacks.evaluation.num_prompts=128",
        "callbacks.checkpoint.every_n_steps=0",
        *QUIET,
        *changes,
    )
    label = "-".join([method, *([change] if change else []), f"lr{lr:g}", f"p{prompts}"])
    return StudyRun(study, contestant.experiment, seed, overrides, label=label)
