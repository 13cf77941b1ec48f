"""RLOO: each response is compared with the others of its group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.functional import centered, kept_rewards


class LeaveOneOutAdvantage(Advantage):
    """Reward minus the mean of the *other* kept responses, so the baseline is independent of the response.

    Source:
        RLOO: Ahmadian et al., "Back to Basics", arXiv:2402.14740; Kool et al. 2019.
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return ``(r - mean) n / (n - 1)``; 0 in a group of one. Shape ``(G,)``."""
        size = len(group.kept)
        return centered(kept_rewards(group)) * size / max(size - 1, 1)
