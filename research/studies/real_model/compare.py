"""The comparison that decides: ``python -m research.studies.real_model.compare``; ``--report-only`` trains nothing.

Every arm with its settings, paired by seed, in the stages of :mod:`research.studies.real_model.setting`
(``--only long``). Writes a file of rows of each to ``docs/studies/real_model/``, and plots of all but the first; the
protocol is docs/studies/real_model_protocol.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from research.benchmarks.report import markdown
from research.studies.contest import Contest, main
from research.studies.curves import (
    TOKENS,
    Curve,
    Estimate,
    common_seeds,
    difference,
    final_level,
    is_at_an_end,
    time_scale,
)
from research.studies.real_model.setting import FIRST, GPU, GPU_ARMS, LONG, RESULTS, STAGES, Stage, arm_run
from research.studies.real_model.tune import tuned
from research.studies.runs import StudyRun
from research.studies.tuning import NotTunedError

NUM_SEEDS = 10
TRAINED, SECONDS = "trained_tokens", "seconds"
LEVEL = 1 - 0.05 / 2
"""Of all intervals: the pairs are looked at twice, after five and after ten (Bonferroni)."""
PAYS_ABOVE, CLOSED_BELOW = 1.15, 1.3
MAIN = (
    (GPU.name, "grpo_oracle"),
    (LONG.name, "grpo_chosen_by_spread"),
    *((GPU_ARMS.name, arm) for arm in GPU_ARMS.arms if arm != "grpo_n4"),
)
"""Stages and arms of the main table."""


def arm_runs(stage: Stage, num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs of the arms that are tuned.

    Raises:
        NotTunedError: ``grpo_n4`` is not, with which all are compared.
    """
    tuned(stage, "grpo_n4")
    runs = {}
    for arm in stage.arms:
        with suppress(NotTunedError):
            settings = tuned(stage, arm)
            runs[arm] = [arm_run(stage, arm, settings, seed=seed) for seed in range(num_seeds)]
    return runs


CONTESTS = {
    name: Contest(
        name,
        stage.results,
        partial(arm_runs, stage),
        num_seeds=NUM_SEEDS,
        picture=None if name == FIRST.name else RESULTS / f"{name}.png",
        comparator={TOKENS: "grpo_n4", TRAINED: "grpo_n4"},
        drawn_costs=(TOKENS, TRAINED),  # seconds are of runs beside others
        title=f"SmolLM2-135M-Instruct, prompts seen once, {'one GPU' if stage.machine else 'CPU'}",
        rate="avg@1 (held-out share right)",
        discard_checkpoints=True,
    )
    for name, stage in STAGES.items()
}


def verdict(estimate: Estimate) -> str:
    """Say what an interval decides.

    Example:
        >>> verdict(Estimate(1.5, 1.2, 1.9)), verdict(Estimate(1.1, 0.9, 1.25)), verdict(Estimate(1.4, 1.0, 1.9))
        ('pays', 'does not pay', 'open')
    """
    if estimate.low > PAYS_ABOVE:
        return "pays"
    return "does not pay" if estimate.high < CLOSED_BELOW else "open"


def table(name: str) -> str:
    """Return where every arm of a stage begins and ends, and its factors, by pairs with ``grpo_n4``."""
    try:
        found = _rows(name)
    except NotTunedError:
        return "No figures yet.\n"
    known = _curves(found)
    base, rows = known.get("grpo_n4", {}), []
    for arm, runs in known.items():
        if not (seeds := sorted(set(base) & set(runs))):
            continue
        signal = np.mean([found[arm][seed]["signal_ratio_mean"] for seed in seeds])
        curves = [runs[seed] for seed in seeds]
        is_base = arm == "grpo_n4"
        higher = sum(final_level([runs[seed]]) > final_level([base[seed]]) for seed in seeds)
        row = [f"`{arm}`", f"{len(seeds)} runs" if is_base else f"{higher} of {len(seeds)} pairs", f"{signal:.0%}"]
        row += [f"{np.mean([curve[0]['held_out'] for curve in curves]):.3f} to {final_level(curves):.3f}"]
        row += ["" if is_base else difference(base, runs, level=LEVEL).written("+.3f")]
        row += [
            "1" if is_base else _written(time_scale(base, runs, cost, level=LEVEL))
            for cost in (TOKENS, TRAINED, SECONDS)
        ]
        rows.append(row)
    head = [
        "arm",
        "ends higher in",
        "groups with a signal",
        "avg@1, start to end",
        "end minus GRPO's",
        "generated tokens",
        "trained tokens",
        "seconds",
    ]
    return markdown(head, rows) if rows else "No figures yet.\n"


def main_table() -> str:
    """Return the factors of every arm that ran in the larger stages, with what the protocol decides of it."""
    rows = []
    for name, arm in MAIN:
        known = _curves(_rows(name))
        base, runs = known["grpo_n4"], known[arm]
        factors = [time_scale(base, runs, cost, level=LEVEL) for cost in (TOKENS, TRAINED, SECONDS)]
        where = f"{'GPU' if STAGES[name].machine else 'CPU'}, {len(common_seeds(base, runs))} pairs"
        rows.append([f"`{arm}`", where, *map(_written, factors), verdict(factors[0])])
    names = ["times fewer than GRPO", "machine", "generated tokens", "trained tokens", "seconds", "decided"]
    return markdown(names, rows)


def together_table() -> str:
    """Return ``grpo_chosen_by_spread`` beside ``grpo_n4`` over the pairs of both machines, all taken as independent."""
    on_cpu, on_gpu = _curves(_rows(LONG.name)), _curves(_rows(GPU_ARMS.name))
    base, other = (
        on_cpu[arm] | {NUM_SEEDS + seed: curve for seed, curve in on_gpu[arm].items()}
        for arm in ("grpo_n4", "grpo_chosen_by_spread")
    )
    row = [
        len(common_seeds(base, other)),
        difference(base, other, level=LEVEL).written("+.3f"),
        time_scale(base, other, TOKENS, level=LEVEL).written(".2f"),
    ]
    return markdown(["pairs", "end minus GRPO's", "generated tokens, times fewer"], [row])


def repeated_table() -> str:
    """Return the arms of ``GPU_ARMS`` beside GRPO's runs of ``GPU``: from one start, with the same seeds.

    GRPO has run twice there, so its own row says what a repeat alone can move.
    """
    base = _curves(_rows(GPU.name))["grpo_n4"]
    rows = [
        [
            f"`{arm}`",
            len(common_seeds(base, runs)),
            difference(base, runs, level=LEVEL).written("+.3f"),
            _written(time_scale(base, runs, TOKENS, level=LEVEL)),
        ]
        for arm, runs in _curves(_rows(GPU_ARMS.name)).items()
    ]
    return markdown(["arm", "pairs", "end minus GRPO's", "generated tokens, times fewer"], rows)


def _rows(name: str) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the results of a stage that are known, by arm and seed."""
    results = CONTESTS[name].results()
    of_arms = arm_runs(STAGES[name], NUM_SEEDS)
    return {arm: {run.seed: results.row(run) for run in runs if results.has(run)} for arm, runs in of_arms.items()}


def _curves(rows: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> dict[str, dict[int, Curve]]:
    return {arm: {seed: row["curve"] for seed, row in of_arm.items()} for arm, of_arm in rows.items()}


def _written(estimate: Estimate) -> str:
    """Write a factor; one at an end of what is searched is none: no stretching brings the curves together."""
    return "none" if is_at_an_end(estimate.value) else estimate.written(".2f")


def decisions() -> list[str]:
    """Return a line for each stage and arm beside ``grpo_n4``; none of a stage that is not tuned."""
    lines = []
    for name, contest in CONTESTS.items():
        with suppress(NotTunedError):
            found = contest.known()
            base = found.get("grpo_n4", {})
            for arm, runs in found.items():
                if arm != "grpo_n4" and (seeds := set(runs) & set(base)):
                    estimate = time_scale(base, runs, TOKENS, level=LEVEL)
                    told = "open" if is_at_an_end(estimate.value) else verdict(estimate)
                    lines.append(f"{name}, {arm}: {_written(estimate)} times fewer tokens, {len(seeds)} seeds: {told}")
    return lines


def run(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, then report."""
    main(str(__doc__), list(CONTESTS.values()), arguments)
    print("\n".join(decisions()))


if __name__ == "__main__":
    run()
