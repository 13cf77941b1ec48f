"""The comparison that decides: ``python -m research.studies.real_model.compare``; ``--report-only`` trains nothing.

Every arm with its settings, paired by seed, in the stages of :mod:`research.studies.real_model.setting`
(``--only long``). Writes a file of rows of each to ``docs/studies/real_model/``, and plots of all but the first; the
protocol is docs/studies/real_model.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

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
    """Return how many times less ``other`` needs, with a bootstrap interval over paired seeds."""
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
    results = CONTESTS[name].results()
    try:
        of_arms = arm_runs(STAGES[name], NUM_SEEDS)
    except NotTunedError:
        return "No figures yet.\n"
    found = {arm: {run.seed: results.row(run) for run in runs if results.has(run)} for arm, runs in of_arms.items()}
    known = {arm: {seed: row["curve"] for seed, row in runs.items()} for arm, runs in found.items()}
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
    found: dict[str, dict[int, Curve]] = {"grpo_n4": {}, "grpo_chosen_by_spread": {}}
    for place, stage in enumerate((LONG, GPU_ARMS)):
        results = CONTESTS[stage.name].results()
        for arm, runs in found.items():
            done = [run for run in arm_runs(stage, NUM_SEEDS)[arm] if results.has(run)]
            runs |= {place * NUM_SEEDS + run.seed: results.row(run)["curve"] for run in done}
    base, other = found.values()
    row = [len(common_seeds(base, other)), level_gain(base, other).written("+.3f"), factor(base, other).written(".2f")]
    return markdown(["pairs", "end beside `grpo_n4`", "tokens, times fewer"], [row])


def repeated_table() -> str:
    """Return the arms of ``GPU_ARMS`` beside GRPO's runs of ``GPU``: from one start, with the same seeds.

    GRPO has run twice there, so its own row says what a repeat alone can move.
    """
    base = CONTESTS[GPU.name].curves()["grpo_n4"]
    results, rows = CONTESTS[GPU_ARMS.name].results(), []
    for arm, runs in arm_runs(GPU_ARMS, NUM_SEEDS).items():
        found = {run.seed: results.row(run)["curve"] for run in runs if results.has(run) and run.seed in base}
        rows.append([f"`{arm}`", len(found), level_gain(base, found).written("+.3f"), _written(factor(base, found))])
    head = ["arm", "seeds", "end beside GRPO's other runs", "tokens, times fewer"]
    return markdown(head, rows)


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
