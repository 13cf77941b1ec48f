"""The comparison that decides: ``python -m research.studies.real_model.compare``; ``--report-only`` trains nothing.

Every arm with its settings, paired by seed, in the stages of :mod:`research.studies.real_model.setting`
(``--only long``). Writes a file of rows of each to ``docs/studies/real_model/``, and plots of all but the first; the
protocol is docs/studies/real_model.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from research.benchmarks.report import markdown
from research.studies.contest import Contest, main
from research.studies.curves import TOKENS, Curve, Estimate, Runs, common_seeds, final_level, is_at_an_end, log_scale
from research.studies.real_model.setting import FIRST, GPU, GPU_ARMS, LONG, RESULTS, STAGES, Stage, arm_run
from research.studies.real_model.tune import tuned
from research.studies.runs import StudyRun
from research.studies.tuning import NotTunedError

NUM_SEEDS = 10
TRAINED, SECONDS = "trained_tokens", "seconds"
LOOKS = 2
"""After five seeds and after ten: intervals are those of 1 - 0.05 / 2 (Bonferroni)."""
PAYS_ABOVE, CLOSED_BELOW = 1.15, 1.3


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
        rate="held-out rate",
        discard_checkpoints=True,
    )
    for name, stage in STAGES.items()
}


def factor(base: Runs, other: Runs, cost: str = TOKENS) -> Estimate:
    """Return how many times less of a cost ``other`` needs, with a bootstrap interval over paired seeds."""
    seeds = common_seeds(base, other)

    def statistic(chosen: np.ndarray) -> float:
        return log_scale(base, other, cost, [seeds[index] for index in chosen])

    value = statistic(np.arange(len(seeds)))
    if len(seeds) < 5:
        return Estimate(math.exp(value))
    found = stats.bootstrap(
        (np.arange(len(seeds)),),
        statistic,
        vectorized=False,
        n_resamples=2000,
        confidence_level=1 - 0.05 / LOOKS,
        method="percentile",  # BCa needs more than ten values to estimate its correction
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Estimate(math.exp(value), math.exp(found.low), math.exp(found.high))


def verdict(estimate: Estimate) -> str:
    """Say what an interval decides.

    Example:
        >>> verdict(Estimate(1.5, 1.2, 1.9)), verdict(Estimate(1.1, 0.9, 1.25)), verdict(Estimate(1.4, 1.0, 1.9))
        ('pays', 'does not pay', 'open')
    """
    if estimate.low > PAYS_ABOVE:
        return "pays"
    return "does not pay" if estimate.high < CLOSED_BELOW else "open"


def level_gain(base: Runs, other: Runs) -> Estimate:
    """Return how much higher ``other`` ends, with the paired t interval of 97.5 %, as :func:`factor` has it.

    The end is the mean of the last three evaluations.
    """
    seeds = common_seeds(base, other)
    gains = [final_level([other[seed]]) - final_level([base[seed]]) for seed in seeds]
    mean = float(np.mean(gains))
    if len(seeds) < 5:
        return Estimate(mean)
    half = float(stats.t.ppf(1 - 0.025 / LOOKS, len(seeds) - 1) * np.std(gains, ddof=1) / math.sqrt(len(seeds)))
    return Estimate(mean, mean - half, mean + half)


def table(name: str) -> str:
    """Return where every arm of a stage begins and ends, beside ``grpo_n4`` with the same seeds."""
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
        row = [f"`{arm}`", len(seeds), f"{signal:.0%}", f"{np.mean([curve[0]['held_out'] for curve in curves]):.3f}"]
        row += [f"{final_level(curves):.3f}", ", ".join(f"{curve[-1]['held_out']:.3f}" for curve in curves)]
        is_base = arm == "grpo_n4"
        row += ["" if is_base else level_gain(base, runs).written("+.3f")]
        row += ["1" if is_base else _written(factor(base, runs, cost)) for cost in (TOKENS, TRAINED, SECONDS)]
        rows.append(row)
    head = [
        "arm",
        "seeds",
        "groups with a signal",
        "start",
        "end",
        "last evaluation, by seed",
        "end beside `grpo_n4`",
        "tokens, times fewer",
        "trained tokens, times fewer",
        "seconds side by side, times fewer",
    ]
    return markdown(head, rows) if rows else "No figures yet.\n"


def together_table() -> str:
    """Return ``grpo_chosen_by_spread`` beside ``grpo_n4`` over the pairs of both machines, all taken as independent."""
    on_cpu, on_gpu = _curves(_rows(LONG.name)), _curves(_rows(GPU_ARMS.name))
    base, other = (
        on_cpu[arm] | {NUM_SEEDS + seed: curve for seed, curve in on_gpu[arm].items()}
        for arm in ("grpo_n4", "grpo_chosen_by_spread")
    )
    row = [len(common_seeds(base, other)), level_gain(base, other).written("+.3f"), factor(base, other).written(".2f")]
    return markdown(["pairs", "end beside `grpo_n4`", "tokens, times fewer"], [row])


def repeated_table() -> str:
    """Return the arms of ``GPU_ARMS`` beside GRPO's runs of ``GPU``: from one start, with the same seeds.

    GRPO has run twice there, so its own row says what a repeat alone can move.
    """
    base = _curves(_rows(GPU.name))["grpo_n4"]
    rows = [
        [
            f"`{arm}`",
            len(common_seeds(base, runs)),
            level_gain(base, runs).written("+.3f"),
            _written(factor(base, runs)),
        ]
        for arm, runs in _curves(_rows(GPU_ARMS.name)).items()
    ]
    return markdown(["arm", "seeds", "end beside GRPO's other runs", "tokens, times fewer"], rows)


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
            found = contest.curves()
            for arm, runs in found.items():
                if arm != "grpo_n4" and "grpo_n4" in found:
                    estimate = factor(found["grpo_n4"], runs)
                    told = "open" if is_at_an_end(estimate.value) else verdict(estimate)
                    lines.append(f"{name}, {arm}: {_written(estimate)} times fewer tokens, {len(runs)} seeds: {told}")
    return lines


def run(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, then report."""
    main(str(__doc__), list(CONTESTS.values()), arguments)
    print("\n".join(decisions()))


if __name__ == "__main__":
    run()
