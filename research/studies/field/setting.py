"""Where the field's files are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from research.benchmarks.report import DOCS
from research.studies.field.sums import write
from research.studies.field.warm_start import MODEL, prepare_model
from research.studies.runs import ROOT, StudyRun

RESULTS = DOCS / "studies" / "cost_benefit"
TUNING = RESULTS / "tuning.jsonl"
RUNS = RESULTS / "runs.jsonl"
SMOLLM2 = RESULTS / "smollm2.jsonl"
SMOLLM2_TUNING = RESULTS / "smollm2_tuning.jsonl"
FRESH = RESULTS / "fresh.jsonl"
LEVERS = RESULTS.parent / "levers" / "runs.jsonl"
HARD = RESULTS.parent / "hard_prompts"


@dataclass(frozen=True)
class Method:
    """One contestant."""

    experiment: str
    """Name in ``conf/experiment``."""
    settings: tuple[str, ...] = ()
    """What differs from that file."""
    updates: int = 1
    """Updates with one rollout, which then has as many times the prompts: an update is made of as many responses."""
    tuned_as_on_first: str = ""
    """On the first model, the method whose learning rate and prompts per update it takes; empty: it is tuned itself."""


METHODS: Mapping[str, Method] = {
    "grpo_n4": Method("grpo", ("sampler.group_size=4",)),
    "grpo_n4_4_updates": Method("grpo", ("sampler.group_size=4",), updates=4, tuned_as_on_first="grpo_n4"),
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
    "mopps": Method("mopps"),
    "ada": Method("ada"),
    "ada_4_updates": Method("ada", updates=4),
    "ada_drift": Method("ada", ("estimator.drift_visits=256",)),
    "ada_thinned": Method("ada", ("estimator.drift_visits=256", "selection=thinned")),
    "ada_thinned_4_updates": Method("ada", ("estimator.drift_visits=256", "selection=thinned"), updates=4),
    # What experiment=ada_similar is; written out, because committed runs are found again by their settings.
    "ada_similar": Method("ada", ("estimator=similar_prompts", "curriculum=expected")),
    "ada_similar_4_updates": Method("ada", ("estimator=similar_prompts", "curriculum=expected"), updates=4),
    "ada_similar_thinned_4_updates": Method(
        "ada", ("estimator=similar_prompts", "curriculum=expected", "selection=thinned"), updates=4
    ),
    # GRPO's groups, scaling and baseline on the prompts that ada_similar would choose: what the choice alone does.
    "grpo_chosen_4_updates": Method(
        "grpo", ("sampler.group_size=4", "estimator=similar_prompts", "curriculum=expected"), updates=4
    ),
    "ada_n2": Method("ada", ("sampler.group_size=2",)),
    "ada_n1": Method("ada", ("sampler.group_size=1",)),
    "ada_n1_4_updates": Method("ada", ("sampler.group_size=1",), updates=4, tuned_as_on_first="ada_n1"),
}


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
