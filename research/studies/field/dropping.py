"""Does it beat dropping prompts of pass rate 0 and 1 once? ``python -m research.studies.field.dropping``.

The baseline that everybody has: draw eight responses of each prompt with the starting policy, leave out the prompts
that are never or always right among them (``prepare.py band.min_positive=1 band.max_positive=7``), then train plain
GRPO on the others. Everything else is as in ``python -m research.studies.field.newer``: its task, seeds, grid of
settings and falling learning rate, whose rows of GRPO and of the methods that choose prompts are compared with it.

- ``counted``: the tokens of the measurement are spent first, and what is left of the budget trains;
- ``free``: the pass rates cost nothing, and the whole budget trains;
- ``once``: prompts that are seen once, pass rates for nothing; settings and GRPO's rows are those of the decay control
  (``python -m research.studies.field.controls``).

``--tune`` trains the grids of the first two before. A study that was killed goes on where it was. Writes
``docs/studies/dropping_once/``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from research.benchmarks.report import DOCS, markdown
from research.studies.contest import Contest, comparison
from research.studies.curves import TOKENS, Runs, difference, later, time_scale
from research.studies.field.controls import CONTESTS as CONTROLS
from research.studies.field.controls import DECAY as CONTROL_DECAY
from research.studies.field.fresh import PROBLEMS, prepare_fresh
from research.studies.field.newer import CONTEST as NEWER
from research.studies.field.newer import DECAY, GRPO, MAX_TOKENS, TUNING_SEED, grid
from research.studies.field.setting import FOLDER, NUM_SEEDS, field_run, prepare, second_seeds, task
from research.studies.field.tune import TUNING as FIELD_TUNING
from research.studies.measured import NUM_SAMPLES
from research.studies.measured import measure as measure_in
from research.studies.measured import measured as of_file
from research.studies.methods import Settings, written
from research.studies.runs import ROOT, StudyRun, train_missing
from research.studies.tuning import Tuning

RESULTS = DOCS / "studies" / "dropping_once"
MEASURED = RESULTS / "measured.json"
"""What each measurement drew and kept, by its name."""
NUM_FRESH = 6144
"""Prompts that are measured where none comes back; more than a budget asks of those that are kept."""
SOME_FRESH = FOLDER / "fresh_measured.jsonl"
TRAINED = (TOKENS, "trained_tokens")
NAMES = {
    "counted": "GRPO after dropping, counted",
    "free": "GRPO after dropping, free",
    "once": "GRPO after dropping, free, prompts seen once",
}
"""Of the ways to count, as tables have them."""
SHOWN = ("grpo_chosen_4_updates", "ada_4_updates")
"""Methods that choose prompts, for comparison."""


def name_of(seed: int, arm: str) -> str:
    """Return the name of the measurement that a run uses: one for each seed, one in all where none comes back."""
    return "fresh" if arm == "once" else f"seed-{seed}"


def measured() -> dict[str, dict[str, Any]]:
    """Return what is known of measurements."""
    return of_file(MEASURED)


def measure(name: str, seed: int, problems: Path | None = None) -> None:
    """Measure, unless it is done.

    Args:
        name: of the measurement.
        seed: of its responses.
        problems: prompts, where they are not those that come back.
    """
    more = () if problems is None else (f"data.source.path={problems.relative_to(ROOT)}",)
    measure_in(FOLDER / "measured" / name, (*task(), *more), seed=seed, file=MEASURED)


def budget(seed: int, arm: str) -> int:
    """Return the generated tokens that are left to train with."""
    if arm != "counted":
        return MAX_TOKENS
    return MAX_TOKENS - int(measured()[name_of(seed, arm)]["generated_tokens"])


def dropping_run(arm: str, settings: Settings, *, study: str, seed: int, points: int) -> StudyRun:
    """Return a run of GRPO on the prompts that a measurement kept."""
    kept = f"data.only={(FOLDER / 'measured' / name_of(seed, arm)).relative_to(ROOT)}"
    once = (f"data.source.path={SOME_FRESH.relative_to(ROOT)}", *DECAY, *CONTROL_DECAY[GRPO][1:])
    return field_run(
        f"dropping/{study}",
        GRPO,
        settings,
        seed=seed,
        max_tokens=budget(seed, arm),
        points=points,
        more=(*(once if arm == "once" else DECAY), kept),
        prefix=f"{arm}-",
    )


def tuning_run(arm: str, settings: Settings) -> StudyRun:
    """Return a run of a grid."""
    return dropping_run(arm, settings, study="tuning", seed=TUNING_SEED, points=6)


def prepare_seeds(seeds: Iterable[int]) -> None:
    """Make model and problems and measure the prompts that come back, unless it is done."""
    prepare()
    for seed in seeds:
        measure(name_of(seed, "counted"), seed)


def prepare_once() -> None:
    """Make model and problems and measure some of the prompts that do not come back, unless it is done."""
    prepare_fresh()
    if not SOME_FRESH.exists():
        with PROBLEMS.open(encoding="utf-8") as file:
            SOME_FRESH.write_text("".join(islice(file, NUM_FRESH)), encoding="utf-8")
    measure(name_of(0, "once"), 0, SOME_FRESH)


TUNING = Tuning(
    RESULTS / "tuning.jsonl",
    "python -m research.studies.field.dropping --tune",
    dict.fromkeys(("counted", "free"), grid(4)),
    tuning_run,
    prepare=partial(prepare_seeds, [TUNING_SEED]),
)


def dropping_runs(arm: str, num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs of one way to count."""
    settings = FIELD_TUNING.tuned(GRPO) if arm == "once" else TUNING.tuned(arm)
    points = 6 if arm == "once" else 8
    return {
        NAMES[arm]: [
            dropping_run(arm, settings, study="runs", seed=seed, points=points) for seed in second_seeds(num_seeds)
        ]
    }


CONTESTS = {
    arm: Contest(arm, RESULTS / "runs.jsonl", partial(dropping_runs, arm), NUM_SEEDS, comparator={})
    for arm in ("counted", "free", "once")
}


def runs_of(arm: str) -> dict[str, Runs]:
    """Return the learning curves of one way to count, measurement included where it counts."""
    found: dict[str, Runs] = {}
    for method, runs in CONTESTS[arm].curves().items():
        spent = {seed: MAX_TOKENS - budget(seed, arm) for seed in runs}
        found[method] = {seed: later(curve, spent[seed]) for seed, curve in runs.items()}
    return found


def _named(method: str) -> str:
    return method if method.startswith("GRPO") else written(method, "`")


def compared(arms: Sequence[str], others: Mapping[str, Runs]) -> str:
    """Return a table of how GRPO on what is left stands against the runs of others.

    Args:
        arms: ways to count.
        others: learning curves by method; GRPO's among them.
    """
    found = {method: runs for method, runs in others.items() if method in (GRPO, *SHOWN)}
    for arm in arms:
        found |= runs_of(arm)
    rows = []
    for standing in comparison(found, dict.fromkeys(TRAINED, GRPO), (GRPO,)):
        scales = ["1" if standing.method == GRPO else standing.scales[cost].written(".2f") for cost in TRAINED]
        rows.append([_named(standing.method), f"{standing.level:.3f}", standing.gain.written("+.3f"), *scales])
    return markdown(["method", "at the end", "minus GRPO", "fewer generated tokens", "fewer trained tokens"], rows)


def come_back_table() -> str:
    """Return how dropping once stands where prompts come back."""
    return compared(("counted", "free"), others_of("free"))


def others_of(arm: str) -> dict[str, Runs]:
    """Return the committed runs that one way to count is compared with, by method."""
    if arm == "once":
        return next(each for each in CONTROLS if each.name == "decay").curves()
    return NEWER.curves()


def against_table() -> str:
    """Return how many times fewer generated tokens the methods that choose prompts need than GRPO on what is left."""
    rows = []
    for arm in CONTESTS:
        others = others_of(arm)
        ((name, dropped),) = runs_of(arm).items()
        for method in SHOWN:
            if method in others:
                scale = time_scale(dropped, others[method], TOKENS).written(".2f")
                rows.append([_named(method), _named(name), scale, difference(dropped, others[method]).written("+.3f")])
    return markdown(["method", "compared with", "fewer generated tokens", "higher at the end"], rows)


def once_table() -> str:
    """Return how dropping once stands where prompts are seen once."""
    return compared(("once",), others_of("once"))


def measured_table() -> str:
    """Return what the measurements took and kept."""
    rows = []
    for name, row in sorted(measured().items()):
        counts = {int(right): prompts for right, prompts in row["prompts_by_positives"].items()}
        share = row["num_selected"] / row["num_prompts"]
        cells = (row["num_prompts"], f"{row['generated_tokens']:,}", counts.get(0, 0), counts.get(NUM_SAMPLES, 0))
        rows.append([name, *cells, f"{row['num_selected']} ({share:.0%})"])
    return markdown(["measurement", "prompts", "generated tokens", "never right", "always right", "kept"], rows)


TABLES = {
    "dropping_come_back": come_back_table,
    "dropping_against": against_table,
    "dropping_once": once_table,
    "dropping_measured": measured_table,
    "dropping_tuning": TUNING.table,
}
"""By the names that they have in pages."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, train the grids (``--tune``) or the comparison, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", action="store_true", help="train the grids, not the comparison")
    parser.add_argument("--only", nargs="+", choices=CONTESTS, default=list(CONTESTS), help="ways to count")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--report-only", action="store_true", help="use the runs that are done, train nothing")
    options = parser.parse_args(arguments)
    if options.tune:
        if name_of(TUNING_SEED, "counted") not in measured():
            prepare_seeds([TUNING_SEED])
        tuned = [arm for arm in options.only if arm in TUNING.grids]
        TUNING.main(str(__doc__), ["--methods", *tuned, "--jobs", str(options.jobs)])
        return
    if not options.report_only:
        for arm in options.only:
            prepare_once() if arm == "once" else prepare_seeds(second_seeds())
            runs = [run for group in CONTESTS[arm].runs(NUM_SEEDS).values() for run in group]
            train_missing(runs, CONTESTS[arm].results(), num_jobs=options.jobs)
    print(*(table() for table in TABLES.values()), sep="\n")


if __name__ == "__main__":
    main()
