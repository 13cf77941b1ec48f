"""The learning rate of every arm: ``python -m research.studies.real_model.tune``.

The same budget for each, a seed that no comparison uses. What ends highest is taken. ``--stage`` says which of the
stages of :mod:`research.studies.real_model.setting`. Writes ``docs/studies/real_model/*_tuning.jsonl``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from research.benchmarks.report import markdown
from research.studies.curves import final_level
from research.studies.methods import Settings
from research.studies.real_model.setting import FIRST, LONG, STAGES, Stage, arm_run
from research.studies.runs import Results, StudyRun, train_missing
from research.studies.tuning import NotTunedError

SEED = 100


def tuning_runs(stage: Stage, arm: str) -> dict[Settings, StudyRun]:
    """Return the runs of an arm's grid, by settings."""
    grid = [Settings(rate, stage.prompts) for rate in stage.rates]
    return {settings: arm_run(stage, arm, settings, seed=SEED, is_tuning=True) for settings in grid}


def results(stage: Stage) -> Results:
    """Return what is known."""
    return Results(stage.tuning_results, discard_checkpoints=True)


def levels(stage: Stage, arm: str) -> dict[Settings, float]:
    """Return the held-out rate at the end, of settings that have run."""
    known = results(stage)
    return {
        settings: final_level([known.row(run)["curve"][1:]])
        for settings, run in tuning_runs(stage, arm).items()
        if known.has(run)
    }


def best(found: Mapping[Settings, float]) -> Settings:
    """Return the settings that end highest; of level ones, the slowest.

    Example:
        >>> best({Settings(1e-5, 8): 0.5, Settings(1.7e-5, 8): 0.5, Settings(3e-5, 8): 0.4}).lr
        1e-05
    """
    return max(found, key=lambda settings: (found[settings], -settings.lr))


def tuned(stage: Stage, arm: str) -> Settings:
    """Return the settings of an arm.

    Raises:
        NotTunedError: some of its grid has not run.
    """
    stage = stage if stage.tuned else LONG
    source = arm if arm in stage.tuned else "grpo_n4"
    found = levels(stage, source)
    if len(found) < len(stage.rates):
        raise NotTunedError(
            f"{source} is not tuned yet: {len(found)} of {len(stage.rates)} settings have run; "
            f"run python -m research.studies.real_model.tune --stage {stage.name}"
        )
    return best(found)


def table(stage: Stage) -> str:
    """Return the level of every arm by its settings; what is taken in bold."""
    rows = []
    for arm in stage.tuned:
        if found := levels(stage, arm):
            texts = {settings: f"{level:.3f}" for settings, level in found.items()}
            texts[best(found)] = f"**{texts[best(found)]}**"
            rows.append([f"`{arm}`", *(texts.get(settings, "-") for settings in tuning_runs(stage, arm))])
    if not rows:
        return "No figures yet.\n"
    return markdown(["arm", *(f"{rate:g}, {stage.prompts}" for rate in stage.rates)], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, a setting of every arm before the next, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--stage",
        choices=[name for name, stage in STAGES.items() if stage.tuned],
        default=FIRST.name,
        help="of the study",
    )
    parser.add_argument("--arms", nargs="+", help="to tune; all of the stage unless given")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, 8 GB each")
    options = parser.parse_args(arguments)
    stage = STAGES[options.stage]
    arms = options.arms or stage.tuned
    if unknown := [arm for arm in arms if arm not in stage.tuned]:
        parser.error(f"--arms {' '.join(unknown)}: stage {stage.name} tunes {', '.join(stage.tuned)}")
    grids = [list(tuning_runs(stage, arm).values()) for arm in arms]
    train_missing([run for of_all in zip(*grids, strict=True) for run in of_all], results(stage), num_jobs=options.jobs)
    print(table(stage))


if __name__ == "__main__":
    main()
