"""The comparison that decides: ``python -m research.studies.real_model.compare``; ``--report-only`` trains nothing.

Every arm with its tuned settings, 60,000 generated tokens, paired by seed. Writes
``docs/studies/real_model/runs.jsonl`` and a plot; the protocol is docs/studies/real_model.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from scipy import stats

from research.studies.contest import Contest, main
from research.studies.curves import TOKENS, Estimate, Runs, common_seeds, log_scale
from research.studies.real_model.setting import ARMS, RESULTS, arm_run
from research.studies.real_model.tune import tuned
from research.studies.runs import StudyRun
from research.studies.tuning import NotTunedError

MAX_TOKENS, POINTS = 60_000, 4
NUM_SEEDS = 10
LOOKS = 2
"""After five seeds and after ten: intervals are those of 1 - 0.05 / 2 (Bonferroni)."""
PAYS_ABOVE, CLOSED_BELOW = 1.15, 1.3


def arm_runs(num_seeds: int) -> dict[str, list[StudyRun]]:
    """Return the runs of the arms that are tuned."""
    runs = {}
    for arm in ARMS:
        with suppress(NotTunedError):
            settings = tuned(arm)
            runs[arm] = [
                arm_run("real_model", arm, settings, seed=seed, max_tokens=MAX_TOKENS, points=POINTS)
                for seed in range(num_seeds)
            ]
    return runs


CONTEST = Contest(
    "real_model",
    RESULTS / "runs.jsonl",
    arm_runs,
    num_seeds=NUM_SEEDS,
    picture=RESULTS / "curves.png",
    comparator={TOKENS: "grpo_n4", "trained_tokens": "grpo_n4"},
    discard_checkpoints=True,
)


def factor(base: Runs, other: Runs) -> Estimate:
    """Return how many times fewer generated tokens ``other`` needs, with a bootstrap interval over paired seeds."""
    seeds = common_seeds(base, other)

    def statistic(chosen: np.ndarray) -> float:
        return log_scale(base, other, TOKENS, [seeds[index] for index in chosen])

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


def decisions() -> list[str]:
    """Return a line for each arm beside ``grpo_n4``."""
    found = CONTEST.curves()
    return [
        f"{arm}: {factor(found['grpo_n4'], runs).written('.2f')} times fewer tokens, {len(runs)} seeds: "
        f"{verdict(factor(found['grpo_n4'], runs))}"
        for arm, runs in found.items()
        if arm != "grpo_n4" and "grpo_n4" in found
    ]


def run(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, then report."""
    if not arm_runs(1) and not {"-h", "--help"} & set(sys.argv[1:] if arguments is None else arguments):
        sys.exit("error: no arm is tuned yet; run python -m research.studies.real_model.tune")
    main(str(__doc__), [CONTEST], arguments)
    print("\n".join(decisions()))


if __name__ == "__main__":
    run()
