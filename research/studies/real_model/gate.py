"""Is there anything to choose? ``python -m research.studies.real_model.gate``.

Draws 16 responses of each of 512 training prompts from the start. The study goes on only if the best quarter of prompts
has at least twice the mean of p (1 - p), and if at least a third of groups of four have a signal; otherwise the tasks
change, not the analysis. Writes ``docs/studies/real_model/gate.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd

from ada_lightning.methods.estimators.logit_prior import shown_spread
from research.studies.real_model.setting import RESULTS, task_settings
from research.studies.real_model.tasks import READABLE
from research.studies.real_model.warm_up import checksum
from research.studies.runs import ROOT

NUM_PROMPTS, NUM_SAMPLES = 512, 16
FOLDER = ROOT / "runs" / "real_model" / "gate"
NEEDS_TRAINING = ("optimizer/", "callbacks.")


def draw() -> Path:
    """Draw and grade the responses with ``prepare.py``, which goes on where it was; return its table of prompts."""
    settings = [each for each in task_settings() if not each.startswith(NEEDS_TRAINING)]
    command = [
        *(sys.executable, str(ROOT / "prepare.py"), *settings, f"num_samples={NUM_SAMPLES}", f"run_dir={FOLDER}"),
        *(f"data.source.num_train={NUM_PROMPTS}", "data.source.num_heldout=0", "data.source.seed=1"),
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    return FOLDER / "prompts.parquet"


def figures(counts: Sequence[tuple[str, int, int]]) -> dict[str, object]:
    """Return what decides, and the pass rates by task.

    Args:
        counts: task, positives and responses of each prompt.

    Example:
        >>> found = figures([("gcd", 2, 4), ("gcd", 0, 4), ("gcd", 4, 4), ("gcd", 0, 4)])
        >>> found["best_quarter_over_mean"], found["signal_ratio_of_4"], found["passes"]
        (4.0, 0.25, False)
    """
    # p (1 - p) from P of n without bias, and the chance that four of the n differ.
    spreads = sorted((shown_spread(positive, n) for _, positive, n in counts), reverse=True)
    best = fmean(spreads[: len(spreads) // 4])
    signal = fmean(1 - _alike(positive, n) - _alike(n - positive, n) for _, positive, n in counts)
    rates: Mapping[str, list[float]] = defaultdict(list)
    for task, positive, n in counts:
        rates[task].append(positive / n)
    ratio = best / fmean(spreads) if any(spreads) else 0.0
    return {
        "num_prompts": len(counts),
        "mean_spread": round(fmean(spreads), 4),
        "best_quarter_over_mean": round(ratio, 3),
        "found_over_mean": {
            k: round(_found(counts, k) / fmean(spreads), 3)
            for k in (4, 8)
            if any(spreads) and all(n >= k + 2 for _, _, n in counts)
        },
        "signal_ratio_of_4": round(signal, 3),
        "passes": ratio >= 2 and signal >= 1 / 3,
        "pass_rate": round(fmean(positive / n for _, positive, n in counts), 3),
        "by_task": {
            task: {"pass_rate": round(fmean(each), 3), "is_readable": task in READABLE}
            for task, each in sorted(rates.items())
        },
    }


def _found(counts: Sequence[tuple[str, int, int]], num_measured: int, *, repetitions: int = 200) -> float:
    """Return the mean p (1 - p) of the quarter that so many responses of each prompt would choose.

    The responses that choose are drawn from those that there are; p (1 - p) is then that of the others, without bias.
    """
    positive_P, n_P = (np.array([row[place] for row in counts]) for place in (1, 2))
    generator, found = np.random.default_rng(0), []
    for _ in range(repetitions):
        seen_P = generator.hypergeometric(positive_P, n_P - positive_P, num_measured)
        rest_P, left_P = positive_P - seen_P, n_P - num_measured
        # A uniform prior, as the oracle has it: its p (1 - p) orders as (1 + right) * (1 + wrong) does.
        order_P = np.lexsort((generator.random(len(n_P)), -(1 + seen_P) * (1 + num_measured - seen_P)))
        chosen_Q = order_P[: len(n_P) // 4]
        found.append((rest_P * (left_P - rest_P) / (left_P * (left_P - 1)))[chosen_Q].mean())
    return fmean(found)


def _alike(number: int, of: int) -> float:
    """Return the chance that four of ``of`` responses, drawn without replacement, are all among ``number``."""
    chance = 1.0
    for drawn in range(4):
        chance *= max(number - drawn, 0) / (of - drawn)
    return chance


def main() -> None:
    """Draw what is missing, print and keep the figures."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    table = pd.read_parquet(draw())
    counts = [(row.task, int(row.num_positive), int(row.num_samples)) for row in table.itertuples()]
    found = {"start": checksum(), **figures(counts)}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "gate.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
