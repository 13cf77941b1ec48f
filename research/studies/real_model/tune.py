"""The learning rate of every arm: ``python -m research.studies.real_model.tune``.

The same budget for each: three rates at eight prompts per update, a seed that no comparison uses, 40,000 generated
tokens. What ends highest is taken. Writes
``docs/studies/real_model/tuning.jsonl``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import fmean

from research.benchmarks.report import markdown
from research.studies.curves import final_level
from research.studies.methods import Settings
from research.studies.real_model.setting import ARMS, RESULTS, arm_run
from research.studies.runs import Results, StudyRun, train_missing
from research.studies.tuning import NotTunedError

GRID = tuple(Settings(lr, prompts=8) for lr in (1e-5, 1.7e-5, 3e-5))
SEEDS = (100,)
MAX_TOKENS, POINTS = 40_000, 2


def tuning_runs(arm: str) -> dict[Settings, list[StudyRun]]:
    """Return the runs of an arm's grid, by settings."""
    return {
        settings: [
            arm_run("real_model/tuning", arm, settings, seed=seed, max_tokens=MAX_TOKENS, points=POINTS)
            for seed in SEEDS
        ]
        for settings in GRID
    }


def results() -> Results:
    """Return what is known."""
    return Results(RESULTS / "tuning.jsonl", discard_checkpoints=True)


def levels(arm: str) -> dict[Settings, float]:
    """Return the mean held-out rate at the end, of settings that ran with every seed."""
    known = results()
    return {
        settings: fmean(final_level([known.row(run)["curve"][1:]]) for run in runs)
        for settings, runs in tuning_runs(arm).items()
        if all(known.has(run) for run in runs)
    }


def best(found: Mapping[Settings, float]) -> Settings:
    """Return the settings that end highest; of level ones, the largest update.

    Example:
        >>> best({Settings(1e-5, 4): 0.5, Settings(1e-5, 8): 0.5, Settings(3e-5, 4): 0.4}).prompts
        8
    """
    return max(found, key=lambda settings: (found[settings], settings.prompts, -settings.lr))


def tuned(arm: str) -> Settings:
    """Return the settings of an arm.

    Raises:
        NotTunedError: some of its grid has not run.
    """
    found = levels(arm)
    if len(found) < len(GRID):
        raise NotTunedError(
            f"{arm} is not tuned yet: {len(found)} of {len(GRID)} settings have run; "
            "run python -m research.studies.real_model.tune"
        )
    return best(found)


def table() -> str:
    """Return the level of every arm by its settings; what is taken in bold."""
    rows = []
    for arm in ARMS:
        if found := levels(arm):
            texts = {settings: f"{level:.3f}" for settings, level in found.items()}
            texts[best(found)] = f"**{texts[best(found)]}**"
            rows.append([f"`{arm}`", *(texts.get(settings, "-") for settings in GRID)])
    if not rows:
        return "No figures yet.\n"
    return markdown(["arm", *(f"{lr:g}, {prompts}" for lr, prompts in GRID)], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, a setting of every arm before the next, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), help="to tune")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, 8 GB each")
    options = parser.parse_args(arguments)
    grids = [[run for runs in tuning_runs(arm).values() for run in runs] for arm in options.arms]
    train_missing([run for of_all in zip(*grids, strict=True) for run in of_all], results(), num_jobs=options.jobs)
    print(table())


if __name__ == "__main__":
    main()
