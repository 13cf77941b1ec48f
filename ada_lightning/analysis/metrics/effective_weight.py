"""With which factor each range of pass rates really pulls on the policy."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

from ada_lightning.core.records import ResponseGroup

EDGES = (0.0, 0.125, 0.25, 0.5, 0.75, 0.875)
"""Lower ends of the bins of a pool's mean."""


def effective_weights(groups: Iterable[ResponseGroup]) -> dict[str, float]:
    """Mean over prompts of ``sum of A / p over positives - sum of A / q over negatives``, by bin of the pool's mean.

    That sum is the factor on grad p that a prompt's kept responses have, as far as the pool's mean shows p: about
    ``f'(p)`` for an estimator of objective f. Only prompts with both classes of which something is kept are counted.

    Args:
        groups: what trains of a rollout, with advantages.

    Returns:
        ``weight/pass_rate_from_<lower end>`` of every bin that has prompts.
    """
    pulls = defaultdict(list)
    for group in groups:
        pool = group.pool
        if group.kept and pool.num_positive and pool.num_negative:
            rate = pool.num_positive / pool.num_sampled
            pulls[EDGES[bisect_right(EDGES, rate) - 1]].append(
                sum(
                    (kept.advantage or 0.0) / (rate if kept.response.is_positive else rate - 1.0) for kept in group.kept
                )
            )
    return {f"weight/pass_rate_from_{edge:g}": fmean(values) for edge, values in sorted(pulls.items())}
