"""Training on hard prompts alone: ``python -m studies.field.hard``.

``prepare.py`` draws 16 responses of each of 2,048 problems from the field's model and selects those with one or two
right, as the authors made their hard sets. GRPO, the published Seq-balance and this project's ``ada`` train on them
with the settings that ``python -m studies.field.tune`` found, three seeds each; ``evaluate.py`` then draws 16 responses
of each held-out problem. Improvement is told by difficulty: one draw of the untrained model makes the bins, and what
it can do is measured by another, so that the bins' luck does not look like learning. A study that was killed goes on
where it was. Writes ``docs/studies/hard_prompts/``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.field.place import HARD, TUNING
from studies.field.reach import Estimate
from studies.field.results import Results
from studies.field.setting import FOLDER as FIELD
from studies.field.setting import HELDOUT, MODEL, NUM_HELDOUT, field_run, prepare
from studies.field.sums import write
from studies.field.tune import tuned
from studies.group_signal.draw import counted
from studies.runs import ROOT, StudyRun, train_all

CONTESTANTS = ("grpo_n4", "grpo_n16", "ada_seq_balance_official", "ada_n1")
NUM_SEEDS = 3
MAX_TOKENS = 240_000
POINTS = 6
NUM_RESPONSES = 16
POOL = FIELD / "hard_pool.jsonl"
POOL_SIZE = 2048
PREPARED = "field_hard"
BINS = ((0.0, 0.0), (0.0, 1 / 8), (1 / 8, 1 / 2), (1 / 2, 1.0))
"""Bounds of starting pass rates: above the first, up to the second; the first bin is 0 alone."""
_MODEL = (
    "model=pretrained",
    f"model.path={MODEL.relative_to(ROOT)}",
    "data=jsonl",
    "reward=exact_match",
    "data.max_prompt_tokens=72",
    "rollout.sampling.max_new_tokens=56",
    "rollout.max_model_tokens=128",
    "rollout.engine.dtype=float32",
    "rollout.engine.kv_cache_gib=0.25",
)


def select_hard() -> None:
    """Write the pool of problems, draw from it and select; what is there is kept."""
    prepare()
    if not POOL.exists():
        lines = HELDOUT.read_text(encoding="utf-8").splitlines()
        write(POOL, size=POOL_SIZE, seed=3, apart_from=frozenset(json.loads(line)["prompt"] for line in lines))
    arguments = (*_MODEL, f"data.source.path={POOL.relative_to(ROOT)}", "data.source.num_heldout=1")
    run_program("prepare.py", *arguments, f"num_samples={NUM_RESPONSES}", "band=hard", f"run_name={PREPARED}")


def run_program(*command: str) -> None:
    """Run a program of the project.

    Raises:
        subprocess.CalledProcessError: it failed; it has said why.
    """
    print(" ".join(command), flush=True)
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True)


def hard_runs(method: str, *, num_seeds: int = NUM_SEEDS) -> list[StudyRun]:
    """Return the training runs of a method, with its tuned settings.

    Raises:
        ValueError: it is not tuned yet.
    """
    best = tuned(method, Results(TUNING))
    changes = (f"data.source.path={POOL.relative_to(ROOT)}", f"data.only=prepared/{PREPARED}")
    return [
        field_run(
            "field/hard",
            method,
            seed=seed,
            lr=best.lr,
            prompts=best.prompts,
            max_tokens=MAX_TOKENS,
            points=POINTS,
            change="hard",
            changes=changes,
        )
        for seed in range(num_seeds)
    ]


class Rates:
    """Pass rates of the held-out problems by model, drawn with ``evaluate.py`` and committed as counts."""

    def __init__(self) -> None:
        self.file = HARD / "heldout.json"
        self._counts: dict[str, list[int]] = json.loads(self.file.read_text()) if self.file.exists() else {}

    def has(self, name: str) -> bool:
        """Whether a model has been drawn from."""
        return name in self._counts

    def of(self, name: str) -> NDArray[np.float64]:
        """Return the pass rates under a model. Shape ``(problems,)``, the same problems for all."""
        return np.array(self._counts[name]) / NUM_RESPONSES

    def draw(self, name: str, *arguments: str) -> None:
        """Draw from a model and keep the counts, unless they are there."""
        if self.has(name):
            return
        evaluation = f"field_hard-{name}"
        sizes = (f"eval.num_samples={NUM_RESPONSES}", f"run_name={evaluation}", f"label={name}", "mlflow=null")
        run_program("evaluate.py", *arguments, *sizes)
        rows = sorted(counted(ROOT / "evaluations" / evaluation)["prompts"])
        self._counts[name] = [right for _, right, *_ in rows]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = ",\n".join(f' "{key}": {json.dumps(value)}' for key, value in self._counts.items())
        self.file.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


@dataclass(frozen=True)
class BinOutcome:
    """What became of the problems of one difficulty."""

    low: float
    high: float
    num_problems: int
    before: float
    """Mean pass rate of the untrained model, from responses that did not choose the bin."""
    gains: Mapping[str, Estimate]
    """By method: mean pass rate after training minus before; over problems and seeds."""


def outcomes(
    chosen_P: NDArray[np.float64],
    before_P: NDArray[np.float64],
    after: Mapping[str, Sequence[NDArray[np.float64]]],
    *,
    seed: int = 0,
    num_resamples: int = 1_000,
) -> list[BinOutcome]:
    """Return the improvement by difficulty.

    Args:
        chosen_P: starting pass rates that make the bins.
        before_P: the same from other responses.
        after: by method, a list with the pass rates of each run.
        seed: of the bootstrap over problems and runs.
        num_resamples: its draws.
    """
    generator = np.random.default_rng(seed)
    found = []
    for low, high in BINS:
        inside = np.flatnonzero((chosen_P == 0) if high == 0 else (chosen_P > low) & (chosen_P <= high))
        if len(inside) == 0:
            continue
        gains = {}
        for method, runs in after.items():
            gain_RP = np.array([run[inside] for run in runs]) - before_P[inside]
            drawn = [
                gain_RP[
                    np.ix_(
                        generator.integers(len(runs), size=len(runs)), generator.integers(len(inside), size=len(inside))
                    )
                ].mean()
                for _ in range(num_resamples)
            ]
            bottom, top = np.quantile(drawn, [0.025, 0.975])
            gains[method] = Estimate(float(gain_RP.mean()), float(bottom), float(top))
        found.append(BinOutcome(low, high, len(inside), float(before_P[inside].mean()), gains))
    return found


def found_outcomes() -> list[BinOutcome]:
    """Return the improvement by difficulty of all runs that are done.

    Raises:
        ValueError: nothing has been drawn.
    """
    rates = Rates()
    if not (rates.has("start_bins") and rates.has("start")):
        raise ValueError(f"{rates.file.name} has no draw of the untrained model; run python -m studies.field.hard")
    after = {method: [rates.of(run.name) for run in hard_runs(method) if rates.has(run.name)] for method in CONTESTANTS}
    return outcomes(rates.of("start_bins"), rates.of("start"), {method: runs for method, runs in after.items() if runs})


def selected() -> dict[str, Any]:
    """Return what ``prepare.py`` found, from the committed copy of its summary."""
    content: dict[str, Any] = json.loads((HARD / "selected.json").read_text())
    return content


def main(arguments: Sequence[str] | None = None) -> None:
    """Select, train and draw what is missing, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=NUM_SEEDS, help="runs of each method")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--report-only", action="store_true", help="use what is done, train nothing")
    options = parser.parse_args(arguments)
    try:
        if not options.report_only:
            _complete(options.seeds, options.jobs)
        found = found_outcomes()
    except ValueError as error:
        sys.exit(f"error: {error}")
    for outcome in found:
        name = "0" if outcome.high == 0 else f"{outcome.low:g} to {outcome.high:g}"
        print(f"starting pass rate {name}: {outcome.num_problems} problems, before {outcome.before:.3f}")
        for method, gain in outcome.gains.items():
            print(f"    {method:<26} {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]")


def _complete(num_seeds: int, num_jobs: int) -> None:
    select_hard()
    summary = json.loads((ROOT / "prepared" / PREPARED / "summary.json").read_text())
    HARD.mkdir(parents=True, exist_ok=True)
    (HARD / "selected.json").write_text(json.dumps(summary, indent=1) + "\n")
    results = Results(HARD / "runs.jsonl")
    groups = [hard_runs(method, num_seeds=num_seeds) for method in CONTESTANTS]
    order = [run for seed in zip(*groups, strict=True) for run in seed]
    train_all([run for run in order if not results.has(run)], num_jobs=num_jobs, keep=results.add)
    rates = Rates()
    own = (f"data.source.path={HELDOUT.relative_to(ROOT)}", f"data.source.heldout_path={HELDOUT.relative_to(ROOT)}")
    for name, seed in (("start_bins", 1), ("start", 2)):
        rates.draw(name, *_MODEL, *own, f"data.source.num_heldout={NUM_HELDOUT}", f"rollout.seed={seed}")
    for run in order:
        rates.draw(run.name, f"checkpoint={run.folder.relative_to(ROOT)}", "rollout.seed=3")


if __name__ == "__main__":
    main()
