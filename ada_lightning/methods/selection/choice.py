"""Which responses of a class are kept, once it is known how many."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.protocols import Selection
from ada_lightning.core.records import Response, ResponsePool
from ada_lightning.methods.checked import Check, Checked, at_least


@dataclass(kw_only=True, eq=False)
class ClassSelection(Checked, Selection):
    """A group of fixed size, of some of each class: the first generated, or a seeded random choice among them.

    Where sampling ends by class labels alone, the responses of a class are exchangeable and the first are as good as
    any. Where it ends by more than that (a spread of rewards), later responses differ from earlier ones, and only the
    random choice has the whole pool's sum as its expectation.
    """

    group_size: int
    """Responses kept per prompt, fewer where the pool is smaller."""
    random_order: bool = False
    """Take a random choice of each class instead of the first generated."""
    seed: int = 0
    """Of that choice; with prompt, slot and step it decides, so a resumed run chooses the same."""

    def _checks(self) -> Iterator[Check]:
        return at_least(1, group_size=self.group_size)

    def take(
        self, pool: ResponsePool, classes: Sequence[Sequence[Response]], num_kept: Sequence[int]
    ) -> list[Response]:
        """Take so many responses of each class: class after class, each in launch order, as the candidates are."""
        generator = random.Random(f"selection/{self.seed}/{pool.step}/{pool.slot}/{pool.prompt.prompt_id}")
        kept: list[Response] = []
        for members, number in zip(classes, num_kept, strict=True):
            chosen = generator.sample(range(len(members)), number) if self.random_order else range(number)
            kept += [members[index] for index in sorted(chosen)]
        return kept
