"""Which responses of a class are kept, once it is known how many."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ada_lightning.core.records import Response, ResponsePool


@dataclass(frozen=True, slots=True)
class Choice:
    """The first generated of each class, or a seeded random choice among them.

    Where sampling ends by class labels alone, the responses of a class are exchangeable and the first are as good as
    any. Where it ends by more than that (a spread of rewards), later responses differ from earlier ones, and only the
    random choice has the whole pool's sum as its expectation.
    """

    is_random: bool = False
    seed: int = 0

    def take(
        self, pool: ResponsePool, classes: Sequence[Sequence[Response]], num_kept: Sequence[int]
    ) -> list[Response]:
        """Take so many responses of each class.

        Args:
            pool: where they come from. Its prompt, slot and step make the random choice, so a repeated step repeats it.
            classes: the candidates of each class, in launch order.
            num_kept: how many to take of each class, at most as many as it has.

        Returns:
            Class after class, each in launch order.
        """
        if not self.is_random:
            return [
                response for members, number in zip(classes, num_kept, strict=True) for response in members[:number]
            ]
        generator = random.Random(f"selection/{self.seed}/{pool.step}/{pool.slot}/{pool.prompt.prompt_id}")
        return [
            members[index]
            for members, number in zip(classes, num_kept, strict=True)
            for index in sorted(generator.sample(range(len(members)), number))
        ]
