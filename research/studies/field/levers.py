"""What each part of a method is worth: one changed at a time, ``python -m research.studies.field.levers``.

Every method here runs with the settings that ``python -m research.studies.field.tune`` found for it, and again with one
thing changed, at those same settings: a change that wants another learning rate may be worth more than it shows here.
Where a change alters the responses per prompt or the number of updates per rollout, the number of prompts follows, so
that an update is made of as many responses. Four updates per rollout of GRPO and ada are in the comparison itself,
other numbers of prompts in its tuning. A study that was killed goes on where it was. Writes
``docs/studies/levers/runs.jsonl`` and a plot.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from research.studies.field.compare import curves, second_seeds
from research.studies.field.levers_plot import plot
from research.studies.field.reach import TOKENS, Runs, difference, final_level, saving
from research.studies.field.results import Results, add_arguments, train_missing
from research.studies.field.setting import LEVERS, TUNING, field_run, prepare
from research.studies.field.standing import Effect, signed, times
from research.studies.field.tune import Tuned, tuned
from research.studies.runs import StudyRun

MAX_TOKENS = 240_000
POINTS = 6
NUM_SEEDS = 3


@dataclass(frozen=True)
class Lever:
    """One change to one method."""

    base: str
    """Name in :data:`~research.studies.field.setting.METHODS`."""
    name: str
    """What is changed; part of the run's name."""
    text: str
    """The change in words, for the table."""
    changes: tuple[str, ...]
    """Its settings."""
    prompts_ratio: float = 1.0
    """Prompts per step over those of the base."""


_AS_IT_IS = "as it is"
_BALANCE = "ada_seq_balance"
_CURRICULUM = ("estimator=beta_history", "curriculum=learnability")
ALL_LEVERS: tuple[Lever, ...] = (
    Lever(_BALANCE, "rarer", "keep the rarer class and as many of the other", ("selection=rarer_class",)),
    Lever(_BALANCE, "all", "keep all that was drawn", ("selection=all",)),
    Lever(_BALANCE, "posterior_stop", "stop by posterior and price", ("sampler=balance_posterior",)),
    Lever(_BALANCE, "official", "published advantage instead of the exact one", ("advantage=official",)),
    Lever(_BALANCE, "linear", "objective p instead of log p", ("objective=linear",)),
    Lever(_BALANCE, "pass_at_4", "objective pass@4", ("objective=pass_at_k",)),
    Lever(_BALANCE, "pooled", "plug-in, pool mean as the pass rate", ("advantage=stratified",)),
    Lever(
        _BALANCE,
        "first_round",
        "plug-in, first round as the pass rate",
        ("advantage=stratified", "advantage.pass_rate._target_=ada_lightning.methods.pass_rates.FirstRoundRate"),
    ),
    Lever(_BALANCE, "curriculum", "prompts chosen by p (1 - p)", _CURRICULUM),
    Lever(_BALANCE, "two_updates", "two updates per rollout, prompts doubled", ("data.num_minibatches=2",), 2.0),
    Lever("grpo_n8", "curriculum", "prompts chosen by p (1 - p)", _CURRICULUM),
    Lever(
        "grpo_n8",
        "history",
        "baseline from history and the others, not standardised",
        ("estimator=beta_history", "advantage=history_baseline"),
    ),
    Lever("grpo_n8", "two_epochs", "every rollout trained on twice", ("data.epochs_per_rollout=2",)),
    Lever("ada", "drift", "memory corrected by how far the policy has moved since", ("estimator.drift_visits=256",)),
    Lever(
        "ada",
        "thinned",
        "that memory, and prompts whose responses are alike thinned out",
        ("estimator.drift_visits=256", "selection=thinned"),
    ),
    Lever(
        "ada",
        "similar",
        "prompts chosen by what those like them have shown, too",
        ("estimator=similar_prompts", "curriculum=expected"),
    ),
    Lever("ada", "no_curriculum", "prompts in a shuffled order", ("curriculum=uniform",)),
    Lever("ada", "leave_one_out", "baseline from the others alone, without history", ("advantage=rloo",)),
    Lever("ada", "neither", "both of these: RLOO", ("curriculum=uniform", "advantage=rloo")),
    Lever("ada", "n1", "one response of four times the prompts", ("sampler.group_size=1",), 4.0),
    Lever("ada", "n8", "eight responses of half the prompts", ("sampler.group_size=8",), 0.5),
    Lever("ada", "two_epochs", "every rollout trained on twice", ("data.epochs_per_rollout=2",)),
)


def lever_runs(base: str, best: Tuned, *, num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs of a method as it is, under ``""``, and with each of its levers, by their names."""

    def runs(lever: Lever | None) -> list[StudyRun]:
        prompts = round(best.prompts * lever.prompts_ratio) if lever else best.prompts
        return [
            field_run(
                "field/levers",
                base,
                seed=seed,
                lr=best.lr,
                prompts=prompts,
                max_tokens=MAX_TOKENS,
                points=POINTS,
                change=lever.name if lever else "",
                changes=lever.changes if lever else (),
            )
            for seed in second_seeds(num_seeds)
        ]

    return {"": runs(None)} | {lever.name: runs(lever) for lever in ALL_LEVERS if lever.base == base}


def effects(base: str, found: Mapping[str, Runs]) -> list[Effect]:
    """Return what each lever of a method did, in the order of :data:`ALL_LEVERS`; the method itself comes first."""
    texts = {"": _AS_IT_IS} | {lever.name: lever.text for lever in ALL_LEVERS if lever.base == base}
    own = found[""]
    return [
        Effect(
            base,
            text,
            final_level(list(found[name].values())),
            difference(own, found[name]),
            saving([own], found[name], TOKENS),
            fmean(curve[-1]["trained_tokens"] / curve[-1][TOKENS] for curve in found[name].values()),
            len(found[name]),
        )
        for name, text in texts.items()
        if name in found
    ]


def all_effects(bases: Sequence[str], *, num_seeds: int = NUM_SEEDS) -> list[Effect]:
    """Return what the levers of some methods did, as far as their runs are done."""
    tuning, results = Results(TUNING), Results(LEVERS)
    listed = []
    for base in bases:
        found = curves(lever_runs(base, tuned(base, tuning), num_seeds=num_seeds), results)
        if "" in found:
            listed += effects(base, found)
    return listed


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, a seed of everything before the next, then report."""
    bases = list(dict.fromkeys(lever.base for lever in ALL_LEVERS))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bases", nargs="+", choices=bases, default=bases, help="methods to change; the picture is of all of them"
    )
    add_arguments(parser, num_seeds=NUM_SEEDS)
    options = parser.parse_args(arguments)
    try:
        if not options.report_only:
            prepare()
            tuning = Results(TUNING)
            groups = [
                group
                for base in options.bases
                for group in lever_runs(base, tuned(base, tuning), num_seeds=options.seeds).values()
            ]
            train_missing(groups, Results(LEVERS), num_jobs=options.jobs)
        found = all_effects(options.bases, num_seeds=options.seeds)
    except ValueError as error:
        sys.exit(f"error: {error}")
    for effect in found:
        figures = f"{effect.level:.3f}  {signed(effect.gain)}  tokens {times(effect.saving)}"
        print(f"{effect.base:<16} {effect.text:<68} {figures}  {effect.trained:.0%} of tokens train")
    if any(effect.text != _AS_IT_IS for effect in found) and options.bases == bases:
        plot(found, LEVERS.with_name("effects.png"))


if __name__ == "__main__":
    main()
