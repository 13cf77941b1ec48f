"""The stopping rules that the study compares."""

from __future__ import annotations

from ada_lightning.core.stopping import QuotaRule

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
