"""RAFT's rule (arXiv:2304.06767, arXiv:2504.11343): accepted responses weigh 1, all others nothing.

Claim: no baseline is needed where only positives train. Assumes rewards that say right or wrong. Degenerate case: a
prompt whose responses are all positive has no contrast, and trains all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages.assigned import AssignedAdvantage


class AcceptedAdvantage(AssignedAdvantage):
    """1 for a positive, 0 for a negative.

    Assigned with the rollout, so that groups of positives only count as having a signal, and groups of negatives only
    are not computed. Ragged groups: a prompt weighs by its positives; ``loss/reduction=prompt_mean`` with
    ``selection=positives`` makes them equal, as GVM does.

    Source:
        RAFT++, arXiv:2504.11343, section 2, and its code, in which every response with a positive score trains and
        weighs by the score; here "accepted" are those above ``rollout.positive_threshold``, which all weigh 1.
    """

    def assign(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """Return 1 or 0 for each kept response."""
        return [[float(kept.response.is_positive) for kept in group.kept] for group in groups]
