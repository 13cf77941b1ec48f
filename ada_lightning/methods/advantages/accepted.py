"""RAFT's rule (arXiv:2304.06767, arXiv:2504.11343): accepted responses weigh 1, all others nothing.

Claim: no baseline is needed where only positives train. Assumes rewards that say right or wrong. Degenerate case: a
prompt whose responses are all positive has no contrast, and trains all the same.
"""

from __future__ import annotations

from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import ResponseGroup


class AcceptedAdvantage(Advantage):
    """1 for a positive, 0 for a negative.

    It follows the rate of responses that are right and train: right and finished with ``rollout.truncated=exclude`` and
    ``mask``. Groups of positives only train, and groups of negatives only are not computed. Ragged groups: a prompt
    weighs by its positives; ``loss/reduction=prompt_mean`` with ``selection=positives`` makes them equal, as GVM does.

    Source:
        RAFT++, arXiv:2504.11343, section 2, and its code, in which every response with a positive score trains and
        weighs by the score; here "accepted" are those above ``rollout.positive_threshold``, which all weigh 1.
    """

    traits = frozenset({Trait.TRAINS_EQUAL_REWARDS, Trait.IS_UNCENTRED})

    def of_group(self, group: ResponseGroup) -> list[float]:
        """Return 1 or 0 for each kept response."""
        return [float(kept.response.is_positive) for kept in group.kept]
