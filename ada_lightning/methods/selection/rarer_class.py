"""All of the rarer class, and as many of the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ada_lightning.core.protocols import Selection
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.checked import Check, Checked, at_least
from ada_lightning.methods.selection.weights import by_label, with_selection_weights


@dataclass(kw_only=True, eq=False)
class RarerClassSelection(Checked, Selection):
    """The whole rarer class with as many of the other one, first generated, at most ``max_per_class`` of each.

    Spends more of the update on prompts whose pool happens to hold more of both; a pool with a single positive trains
    on two responses. One whose trainable responses are all of one class keeps up to ``max_per_class`` of them. They
    have no advantage, but KL, entropy and the denominators of the response and token means must not lose the prompt.
    """

    max_per_class: int
    """Most responses kept of each class; a group holds up to twice as many."""

    def _checks(self) -> Iterator[Check]:
        return at_least(1, max_per_class=self.max_per_class)

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses, positives first, each class in launch order."""
        positives, negatives = by_label(pool)
        rarer = min(len(positives), len(negatives)) or len(positives) or len(negatives)
        number = min(rarer, self.max_per_class)
        return with_selection_weights(pool, positives[:number] + negatives[:number])
