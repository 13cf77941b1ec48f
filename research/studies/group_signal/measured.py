"""Intervals of figures that are no means: percentile bootstrap over prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ada_lightning.analysis.evaluation.bootstrap import Estimate, bootstrap_means
from research.studies.group_signal.figures import all_outcomes
from research.studies.group_signal.outcome import Outcome, UniformGroups, outcome, uniform_groups
from research.studies.group_signal.rates import CountedRates, Floats
from research.studies.group_signal.rules import BUDGETS, balance_up_to

NUM_RESAMPLES = 10_000
SEED = 0


def resampled_means(values_PC: Floats) -> Floats:
    """Means over resamples of prompts; the responses of a prompt go with it, so their noise is inside.

    Args:
        values_PC: figures of each prompt. Shape ``(prompts, columns)``.

    Returns:
        Shape ``(NUM_RESAMPLES, columns)``.
    """
    num_prompts = len(values_PC)
    shares = np.random.default_rng(SEED).multinomial(num_prompts, [1 / num_prompts] * num_prompts, NUM_RESAMPLES)
    return np.asarray(shares @ values_PC / num_prompts)


def with_interval(figure: float, resampled_B: Floats) -> dict[str, float]:
    """A figure with its 95 % interval."""
    low, high = np.quantile(resampled_B, [0.025, 0.975])
    return {"mean": figure, "low": float(low), "high": float(high)}


SHOWN = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Group sizes."""
FRONTIER = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Expected responses per prompt at which uniform groups are drawn."""


def read_counts(file: Path) -> CountedRates:
    """Read a file of :mod:`research.studies.group_signal.draw`."""
    prompts = json.loads(file.read_text())["prompts"]
    return CountedRates([row[1] for row in prompts], [row[2] for row in prompts])


def measured_figures(rates: CountedRates) -> dict[str, Any]:
    """Compute pass@k, all right and all wrong by group size, and every rule of the study.

    Everything is unbiased for the prompts' own pass rates. Intervals are over prompts: BCa for means, percentiles for
    ratios and differences.
    """
    largest = rates.most_responses
    groups = uniform_groups(rates, largest)
    outcomes = all_outcomes(rates)
    outcomes |= {f"up to {n_max}": outcome(balance_up_to(n_max), rates) for n_max in BUDGETS if n_max <= largest}
    return {
        "num_prompts": len(rates.positives_R),
        "num_responses": largest,
        "pass_rate": float((rates.positives_R / rates.responses_R).mean()),
        "never": int((rates.positives_R == 0).sum()),
        "always": int((rates.positives_R == rates.responses_R).sum()),
        "curves": _curves(groups, largest),
        "rules": _rules(outcomes, groups),
        "frontier": [{"responses": at, "uniform": groups.signal_at(at)} for at in FRONTIER if at <= largest],
    }


def _curves(groups: UniformGroups, largest: int) -> dict[str, Any]:
    sizes = [size for size in SHOWN if size <= largest]
    columns = np.array(sizes) - 1
    parts = {
        "pass": 1.0 - groups.all_wrong_RN[:, columns],
        "all_right": groups.all_right_RN[:, columns],
        "all_wrong": groups.all_wrong_RN[:, columns],
        "signal": groups.signal_by_size[:, columns],
    }
    estimates = iter(bootstrap_means([np.concatenate(list(parts.values()), axis=1)], [1.0], seed=SEED))
    return {name: {str(size): _as_json(next(estimates)) for size in sizes} for name in parts}


def _as_json(found: Estimate) -> dict[str, float]:
    return {"mean": found.mean, "low": found.low, "high": found.high}


def _rules(outcomes: dict[str, Outcome], groups: UniformGroups) -> dict[str, Any]:
    """Every rule, and its lead over uniform groups of as many responses, from one set of resamples."""
    largest = groups.signal_by_size.shape[1]
    of_rules = [
        np.stack([found.responses_R, found.signal_by_row, found.balanced_R], axis=1) for found in outcomes.values()
    ]
    values_PC = np.concatenate([groups.signal_by_size, groups.balanced_RN, *of_rules], axis=1)
    means_BC = resampled_means(values_PC)
    rows = {}
    for index, name in enumerate(outcomes):
        first = 2 * largest + 3 * index
        measured = _lead(values_PC.mean(axis=0)[None, :], first, largest)
        resampled = _lead(means_BC, first, largest)
        rows[name] = {figure: with_interval(float(value[0]), resampled[figure]) for figure, value in measured.items()}
    return rows


def _lead(means_BC: Floats, first: int, largest: int) -> dict[str, Floats]:
    """Figures of a rule whose three columns begin at ``first``, behind those of uniform groups up to ``largest``."""
    responses_B, signal_B, balanced_B = means_BC[:, first : first + 3].T
    uniform_signal_B = _interpolated(means_BC[:, :largest], responses_B)
    uniform_balanced_B = _interpolated(means_BC[:, largest : 2 * largest], responses_B)
    return {
        "responses": responses_B,
        "signal": signal_B,
        "balanced": balanced_B,
        "signals_per_1000": 1000 * signal_B / responses_B,
        "uniform_signal": uniform_signal_B,
        "uniform_balanced": uniform_balanced_B,
        "lead_signal": signal_B - uniform_signal_B,
        "lead_balanced": balanced_B - uniform_balanced_B,
    }


def _interpolated(by_size_BN: Floats, responses_B: Floats) -> Floats:
    """Value of each row at a size between two whole ones."""
    below_B = np.clip(np.floor(responses_B).astype(int), 1, by_size_BN.shape[1] - 1)
    rows_B, share_B = np.arange(len(by_size_BN)), responses_B - below_B
    return (1 - share_B) * by_size_BN[rows_B, below_B - 1] + share_B * by_size_BN[rows_B, below_B]
