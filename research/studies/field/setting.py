"""The field: model, problems and engine that all of its runs share, and where their results are.

``python -m research.studies.field.setting`` makes model and problems in ``runs/field``, and prints the settings with
which ``train.py`` uses them.
"""

from __future__ import annotations

from collections.abc import Sequence

from research.benchmarks.report import DOCS
from research.studies.field.sums import write
from research.studies.field.warm_start import MODEL, prepare_model
from research.studies.methods import Settings, budget_run
from research.studies.runs import ROOT, StudyRun

RESULTS = DOCS / "studies" / "cost_benefit"
FOLDER = ROOT / "runs" / "field"
TRAIN, HELDOUT = FOLDER / "train.jsonl", FOLDER / "heldout.jsonl"
NUM_TRAIN, NUM_HELDOUT = 512, 256
MODEL_SIZE = "Tiny model (0.15 million parameters)"
"""As pictures say it."""
FIRST_SEEDS = range(3)
"""Of runs from the first model, which is gone."""
NUM_SEEDS = 5
"""Of runs from the committed model; they follow."""
FLOAT32 = "trainer.precision=32-true"
"""What runs since have, so that rows of machines with and without fast bfloat16 go together."""


def second_seeds(num_seeds: int = NUM_SEEDS) -> range:
    """Return the seeds of runs from the committed model."""
    return range(FIRST_SEEDS.stop, FIRST_SEEDS.stop + num_seeds)


def prepare() -> None:
    """Make model and problems, unless they are there."""
    prepare_model()
    if not (TRAIN.exists() and HELDOUT.exists()):
        held_out = write(HELDOUT, size=NUM_HELDOUT, seed=2)
        write(TRAIN, size=NUM_TRAIN, seed=1, apart_from=held_out)


def task() -> tuple[str, ...]:
    """Return the settings of model, problems and engine."""
    return (
        "model=pretrained",
        f"model.path={MODEL.relative_to(ROOT)}",
        "data=jsonl",
        f"data.source.path={TRAIN.relative_to(ROOT)}",
        f"data.source.heldout_path={HELDOUT.relative_to(ROOT)}",
        f"data.source.num_heldout={NUM_HELDOUT}",
        "data.max_prompt_tokens=72",
        "data.max_tokens_per_microbatch=4096",
        "reward=exact_match",
        "rollout.sampling.max_new_tokens=56",
        "rollout.max_model_tokens=128",
        "rollout.engine.dtype=float32",
        "rollout.engine.kv_cache_gib=0.25",
    )


def field_run(
    study: str,
    method: str,
    settings: Settings,
    *,
    seed: int,
    max_tokens: int,
    points: int,
    more: Sequence[str] = (),
    prefix: str = "",
) -> StudyRun:
    """Return a run of a method; arguments as of :func:`~research.studies.methods.budget_run`."""
    return budget_run(
        f"field/{study}",
        method,
        settings,
        seed=seed,
        max_tokens=max_tokens,
        points=points,
        task=task(),
        more=more,
        prefix=prefix,
    )


if __name__ == "__main__":
    prepare()
    print(" ".join(task()))
