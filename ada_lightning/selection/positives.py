"""Right answers only: rejection sampling."""

from __future__ import annotations

from ada_lightning.selection.weights import with_selection_weights
from ada_lightning.types import KeptResponse, ResponsePool


class PositivesSelection:
    """All positives of a pool; a prompt without any is dropped. What RAFT, RAFT++ and GVM-RAFT train on.

    Its rewards are all the same, so an advantage that compares kept responses with each other is zero: with it go
    ``advantage=reward``, and a loss that makes the kept responses more likely. A pool that is all right counts as
    without signal; ``data.skip_groups_without_signal=false`` trains on it, as RAFT does.

    Source:
        RAFT, Dong et al., arXiv:2304.06767; RAFT++, Xiong et al., arXiv:2504.11343.
    """

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the positives in launch order."""
        return with_selection_weights(pool, [response for response in pool.trainable() if response.is_positive])
