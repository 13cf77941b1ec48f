"""The stopping rules that the study compares."""

from __future__ import annotations

from pathlib import Path

from ada_lightning.core.stopping import QuotaRule
from research.benchmarks.report import DOCS
from research.benchmarks.simulation.pass_rates import Mix

BALANCE = QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=32)
"""``sampler=balance``; arXiv:2510.04996v3, appendix D, draws ``N_max / 8`` at a time too."""
RULES = {
    "Seq-balance, blocks of 8": QuotaRule(k_pos=2, k_neg=2, samples_per_round=8, n_max=32),
    "Seq-balance, blocks of 4": BALANCE,
    "Seq-pos, blocks of 8": QuotaRule(k_pos=1, k_neg=0, samples_per_round=8, n_max=32),
    "Seq-pos, blocks of 4": QuotaRule(k_pos=1, k_neg=0, samples_per_round=4, n_max=32),
    "one of each, blocks of 4": QuotaRule(k_pos=1, k_neg=1, samples_per_round=4, n_max=32),
    "one of each, one at a time": QuotaRule(k_pos=1, k_neg=1, samples_per_round=1, n_max=32),
}
"""By name. Blocks of 8 as the released code (verl/trainer at 05be605), of 4 as ``conf/sampler``."""
GROUP_SIZES = (4, 8, 16, 32, 256)
"""Of uniform groups in tables of rules."""
BUDGETS = (8, 16, 32, 64, 128, 256)
"""Most responses of Seq-balance in blocks of 4, where that is varied."""


def balance_up_to(n_max: int) -> QuotaRule:
    """Seq-balance in blocks of 4 with another budget."""
    return QuotaRule(k_pos=2, k_neg=2, samples_per_round=4, n_max=n_max)


SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Group sizes k of the curves below."""
CURVES = {
    "base": {
        "pass": (0.176, 0.265, 0.376, 0.482, 0.575, 0.653, 0.718, 0.770, 0.813),
        "all_right": (0.176, 0.076, 0.041, 0.019, 0.006, 0.003, 0.0, 0.0, 0.0),
    },
    "after RL": {
        "pass": (0.49, 0.575, 0.65, 0.708, 0.755, 0.79, 0.818, 0.843, 0.862),
        "all_right": (0.50, 0.411, 0.353, 0.292, 0.236, 0.195, 0.160, 0.130, 0.102),
    },
}
"""Read from ``figures/passk.png``; the text names 0.353 at 4, 0.102 at 256 and 0.813 at 256. Its base pass@1 of
"26.5 %" is pass@2 of the plot. Qwen2.5-Math-1.5B, before training and at step 400, on a subset of Open-R1."""
WORKED_EXAMPLE = {"pass_rate": 0.1, "size": 8, "published": 0.19}
"""v3: a group of 8 at p = 0.1 is said to be all wrong about 19 % of the time."""
FITTED = {
    "base": Mix(never=0.0317287, always=0.00161621, alpha=0.343321, beta=1.56603),
    "after RL": Mix(never=0.0511922, always=0.0, alpha=0.295196, beta=0.267913),
}
"""Mixes whose curves are nearest to those of :data:`CURVES`, by least squares."""


FOLDER = DOCS / "studies" / "signal_loss"


def counts_file(name: str) -> Path:
    """Counts of a model."""
    return FOLDER / f"counts-{name}.json"
