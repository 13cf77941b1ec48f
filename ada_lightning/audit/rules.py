"""What other rules would have drawn for the same prompts: averages over all orders of a group's responses.

Where a group has n responses that were drawn alike, every order of them is equally likely. A rule of counts that draws
at most n of them ends at (a, b) with probability

    paths of the rule from (0, 0) to (a, b) * C(n - a - b, P - a) / C(n, P),

which depends on the counts (P, Q) of the group alone: no model, and unbiased. A rule that draws more goes on from
(P, Q) with a pass rate of the fitted mixture given (P, Q): that part is extrapolated, and counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from ada_lightning.audit.pass_rates import GRID, Mixture
from ada_lightning.core.stopping import FixedRule, PilotRule, QuotaRule, StoppingRule
from ada_lightning.core.stopping.outcomes import Outcome, ends_of, exact_outcome
from ada_lightning.core.stopping.paths import path_sums, reach

MAX_EXTRAPOLATION = 4
"""Rules that draw up to so many times what a group has are still shown."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule to try."""

    name: str
    """For people."""
    rule: StoppingRule


CANDIDATES = (
    *(Candidate(f"{n} each, as GRPO", FixedRule(n)) for n in (2, 4, 8, 16, 32)),
    *(Candidate(f"fours until 1 right and 1 wrong, at most {n}", QuotaRule(1, 1, 4, n)) for n in (8, 16, 32)),
    *(Candidate(f"fours until 2 right and 2 wrong, at most {n}", QuotaRule(2, 2, 4, n)) for n in (8, 16, 32)),
    *(Candidate(f"fours until 1 right, at most {n}", QuotaRule(1, 0, 4, n)) for n in (8, 16, 32)),
    Candidate("4, and 4 more where they differ", PilotRule((4, 8, 8, 8, 4))),
    Candidate("4, and 12 more where they differ", PilotRule((4, 16, 16, 16, 4))),
)
"""In the order of the page. Fours until two of both are ``ada_seq_balance`` of this project, until one right
``ada_seq_pos``, four and more where they differ a screen as SPEED-RL's."""


def candidates(typical: int, smallest: int) -> list[Candidate]:
    """Return the rules to try on groups of these sizes: exact ones, and extrapolated ones that have no memory."""
    return [
        candidate
        for candidate in CANDIDATES
        if candidate.rule.n_max <= smallest
        or (candidate.rule.n_max <= MAX_EXTRAPOLATION * typical and not candidate.rule.branches())
    ]


def outcome(rule: StoppingRule, num_positive: int, num_negative: int, mixture: Mixture) -> Outcome:
    """Return what a rule is expected to draw for a group with these counts.

    Args:
        rule: of counts.
        num_positive: positives of the group.
        num_negative: negatives of the group.
        mixture: of pass rates; used only past the group's responses.

    Raises:
        ValueError: a rule that remembers would draw more than the group has.

    Example:
        >>> from ada_lightning.audit.pass_rates import fit_mixture
        >>> mixture = fit_mixture([(1, 3)])
        >>> outcome(FixedRule(2), 1, 3, mixture).signal  # of 6 pairs, 3 hold the right one
        0.5
    """
    inside = exact_outcome(rule, num_positive, num_negative)
    total, counts = num_positive + num_negative, (num_positive, num_negative)
    if total >= rule.n_max:
        return inside
    if rule.branches():
        raise ValueError(f"{rule} remembers how a prompt began, and draws more than the {total} responses of the group")
    if rule.stops(*counts):
        return inside
    still_open = float(reach(rule)[counts]) * 2.0**total / comb(total, num_positive)
    if still_open == 0.0:
        return inside
    posterior = mixture.posterior(*counts)
    sums = path_sums(rule, {counts: 1.0})
    positives = negatives = signal = rows = comparisons = beyond = 0.0
    for a, b in ends_of(rule):
        if a < num_positive or b < num_negative or a + b <= total or sums[a, b] == 0.0:
            continue
        rates = GRID ** (a - num_positive) * (1.0 - GRID) ** (b - num_negative)
        chance = still_open * float(sums[a, b]) * 2.0 ** (a + b) * float(np.dot(posterior, rates))
        positives, negatives = positives + chance * a, negatives + chance * b
        if a and b:
            signal, rows = signal + chance, rows + chance * (a + b)
            comparisons += chance * a * b / (a + b)
        beyond += chance * (a + b - total)
    return Outcome(
        inside.positives + positives,
        inside.negatives + negatives,
        inside.signal + signal,
        inside.rows + rows,
        inside.comparisons + comparisons,
        beyond,
        signal * (not (num_positive and num_negative)),
    )
