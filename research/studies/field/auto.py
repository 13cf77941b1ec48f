"""Does ``experiment=auto`` pay with the tiny model? ``python -m research.studies.field.auto``.

Five tasks with ten pairs each. On every task ``auto`` stands beside GRPO, the best fixed method of that task, GRPO on
what is left when prompts of pass rate 0 and 1 are dropped once, and DAPO's dynamic sampling. The protocol is
docs/studies/auto_protocol.md. GRPO, the dropping and DAPO read no words, so they have one run where prompts come once,
whether words tell or are exchanged.

A study that was killed goes on where it was. Writes ``docs/studies/auto/field.jsonl``, a row for each run as it ends,
and what measurements took to ``docs/studies/auto/measured.json``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from research.benchmarks.report import DOCS, markdown
from research.studies.curves import TOKENS, Runs, time_scale
from research.studies.field.controls import BLIND, CHOSEN
from research.studies.field.fresh import PROBLEMS, prepare_fresh
from research.studies.field.setting import FLOAT32, FOLDER, NUM_HELDOUT, NUM_TRAIN, field_run, prepare, task
from research.studies.field.sums import ALIKE, WIDE, Mixture, write
from research.studies.field.tune import TUNING
from research.studies.measured import NUM_SAMPLES, measure, measured, spent
from research.studies.pairs import AUTO, GRPO, Arm, PairStudy, Row, Task, relative, share_chosen
from research.studies.runs import ROOT, StudyRun

RESULTS = DOCS / "studies" / "auto"
MEASURED = RESULTS / "measured.json"
SEEDS = range(21, 31)
"""Which nothing else has used."""
MAX_TOKENS, POINTS = 120_000, 4
NUM_MEASURED = 3_584
"""Prompts that are measured where none comes back: half more than GRPO has time for."""
GRPO_METHOD, AUTO_METHOD, DAPO_METHOD = "grpo_n4_4_updates", "auto_4_updates", "dapo_refill"
BEST = "best fixed method"
FREE, COUNTED = "dropped once (free)", "dropped once (counted)"
TITLES = {
    "once": "seen once, words tell",
    "exchanged": "seen once, words exchanged",
    "back": "come back",
    "alike": "low and alike",
    "wide": "wide",
}
"""Of tasks, in the order in which a pair of each runs."""
OF_BEST, OF_GRPO = 0.9, 0.93
"""Targets: of the best method's factor where choosing pays, and of GRPO, lower bound, where it does not."""


@dataclass(frozen=True)
class Prompts:
    """Files of a task, below ``runs/field``."""

    name: str
    mixture: Mixture | None = None
    """Of problems of its own; None: those of the field."""
    come_once: bool = False

    @property
    def problems(self) -> Path | None:
        """What a run trains on; None: the field's problems that come back."""
        if self.come_once:
            return PROBLEMS
        return FOLDER / f"{self.name}.jsonl" if self.mixture else None

    @property
    def heldout(self) -> Path:
        """Held-out problems of a mixture."""
        return FOLDER / f"{self.name}_heldout.jsonl"

    @property
    def measured_problems(self) -> Path | None:
        """What is measured and then trained on in part; as many of the problems that come once as a run can need."""
        return FOLDER / f"{self.name}_measured.jsonl" if self.come_once else self.problems

    def settings(self, *, is_measured: bool = False) -> tuple[str, ...]:
        """Return what differs from the field's settings."""
        path = self.measured_problems if is_measured else self.problems
        found = (f"data.source.path={path.relative_to(ROOT)}",) if path else ()
        held_out = (f"data.source.heldout_path={self.heldout.relative_to(ROOT)}",) if self.mixture else ()
        return (*found, *held_out)

    def measurement(self, seed: int) -> Path:
        """Return the folder of the measurement that a seed uses: one for all where no prompt comes back."""
        return FOLDER / "measured" / (f"auto-{self.name}" if self.come_once else f"auto-{self.name}-{seed}")

    def prepare(self) -> None:
        """Write the files, unless they are there."""
        path = self.measured_problems
        if path is None or path.exists():
            return
        if self.mixture:
            held_out = write(self.heldout, size=NUM_HELDOUT, seed=12, mixture=self.mixture)
            write(path, size=NUM_TRAIN, seed=11, apart_from=held_out, mixture=self.mixture)
        else:
            with PROBLEMS.open(encoding="utf-8") as file:
                path.write_text("".join(islice(file, NUM_MEASURED)), encoding="utf-8")


ONCE = Prompts("once", come_once=True)
BACK = Prompts("back")
OF_MIXTURES = (Prompts("alike", ALIKE), Prompts("wide", WIDE))


def run_of(prompts: Prompts, method: str, seed: int, *, label: str = "", more: tuple[str, ...] = ()) -> StudyRun:
    """Return a run; ``label`` tells runs of one method on the same prompts apart."""
    return field_run(
        "auto",
        method,
        TUNING.tuned(method),
        seed=seed,
        max_tokens=MAX_TOKENS,
        points=POINTS,
        more=(*(more or prompts.settings()), FLOAT32),
        prefix=f"{label or prompts.name}-",
    )


def dropped_run(prompts: Prompts, seed: int) -> StudyRun:
    """Return GRPO's run on the prompts that a measurement kept."""
    only = f"data.only={prompts.measurement(seed).relative_to(ROOT)}"
    settings = (*prompts.settings(is_measured=True), only)
    return run_of(prompts, GRPO_METHOD, seed, label=f"{prompts.name}-dropped", more=settings)


def measure_for(prompts: Prompts, seed: int) -> None:
    """Draw eight responses of each prompt with the starting policy, unless it is done."""
    settings, own_seed = (*task(), *prompts.settings(is_measured=True)), 0 if prompts.come_once else seed
    measure(prompts.measurement(seed), settings, seed=own_seed, file=MEASURED)


def spent_for(prompts: Prompts, seed: int, row: Row) -> float:
    """Return what the measurement cost; of prompts that come once, the part that belongs to those that were trained."""
    found = measured(MEASURED)[prompts.measurement(seed).name]
    return spent(found, row, is_part=prompts.come_once)


def arms(prompts: Prompts, best: str) -> dict[str, Arm]:
    """Return the arms of a task; ``best``: a method, or GRPO."""

    def arm(method: str) -> Arm:
        return Arm(partial(run_of, prompts, method))

    run, before = partial(dropped_run, prompts), partial(measure_for, prompts)
    found = {AUTO: arm(AUTO_METHOD), GRPO: arm(GRPO_METHOD), DAPO_METHOD: arm(DAPO_METHOD)}
    found |= {FREE: Arm(run, before), COUNTED: Arm(run, before, partial(spent_for, prompts))}
    return found if best == GRPO else found | {BEST: arm(best)}


def _exchanged() -> dict[str, Arm]:
    more = (*ONCE.settings(), *BLIND[CHOSEN])
    run: Callable[[int], StudyRun] = partial(_run_exchanged, more)
    return arms(ONCE, GRPO) | {AUTO: Arm(run)}


def _run_exchanged(more: tuple[str, ...], seed: int) -> StudyRun:
    return run_of(ONCE, AUTO_METHOD, seed, label="exchanged", more=more)


def tasks() -> Mapping[str, Task]:
    """Return the tasks, in the order in which a pair of each runs."""
    alike, wide = OF_MIXTURES
    return {
        "once": Task(TITLES["once"], arms(ONCE, "ada_similar_thinned_4_updates"), BEST),
        "exchanged": Task(TITLES["exchanged"], _exchanged()),
        "back": Task(TITLES["back"], arms(BACK, "ada_4_updates"), BEST),
        "alike": Task(TITLES["alike"], arms(alike, GRPO)),
        "wide": Task(TITLES["wide"], arms(wide, "ada_4_updates"), BEST),
    }


def judge(task: Task, curves: Mapping[str, Runs]) -> str:
    """Say whether ``auto`` has reached its target on a task."""
    if task.best == GRPO:
        estimate = time_scale(curves[GRPO], curves[AUTO], TOKENS)
        reached = estimate.low >= OF_GRPO
        return f"{'reached' if reached else 'missed'}: at least {estimate.low:.2f} of GRPO (asked: {OF_GRPO})"
    share = relative(curves[GRPO], curves[AUTO], curves[task.best])
    return f"{'reached' if share.value >= OF_BEST else 'missed'}: {share.written('.2f')} of the best (asked: {OF_BEST})"


def start_table() -> str:
    """Return how pass rates lie where prompts come back, by the measurements of the first seed."""
    notes, rows = measured(MEASURED), []
    for prompts in (BACK, *OF_MIXTURES):
        if found := notes.get(prompts.measurement(SEEDS[0]).name):
            counts = {int(right): number for right, number in found["prompts_by_positives"].items()}
            rates = np.repeat([right / NUM_SAMPLES for right in counts], list(counts.values()))
            mean = rates.mean()
            alike = math.sqrt(mean * (1 - mean) / NUM_SAMPLES)
            cells = [f"{mean:.2f}", f"{rates.std():.2f}", f"{alike:.2f}", counts.get(0, 0), counts.get(NUM_SAMPLES, 0)]
            rows.append([TITLES[prompts.name], len(rates), *cells])
    head = ["task", "prompts", "mean pass rate", "standard deviation", "the same if all were alike"]
    return markdown([*head, "never right", "always right"], rows) if rows else "No figures yet.\n"


def summary_table() -> str:
    """Return ``auto`` beside the best fixed method, in generated tokens, of the tasks that have all their pairs."""
    rows = []
    for kind in STUDY.tasks.values():
        if STUDY.num_pairs(kind) == len(SEEDS):
            curves, of_auto = STUDY.curves(kind), STUDY.rows(kind)[AUTO].values()
            own, best = (time_scale(curves[GRPO], curves[arm], TOKENS).written(".2f") for arm in (AUTO, kind.best))
            chosen = np.mean([share_chosen(row) for row in of_auto])
            rows.append([kind.title, own, "1 (GRPO)" if kind.best == GRPO else best, f"{chosen:.0%}"])
    return markdown(["task", "`auto`", "method expected to be best", "updates of `auto` after a choice"], rows)


def tables() -> dict[str, Callable[[], str]]:
    """Return what makes the tables, by the names that they have in pages."""
    return STUDY.tables("auto_field") | {"auto_field_start": start_table, "auto_field_summary": summary_table}


def prepare_all() -> None:
    """Make model and problems, unless they are there."""
    prepare()
    prepare_fresh()
    for prompts in (ONCE, *OF_MIXTURES):
        prompts.prepare()


STUDY = PairStudy(RESULTS / "field.jsonl", SEEDS, tasks(), judge, prepare_all)

if __name__ == "__main__":
    STUDY.main(str(__doc__))
