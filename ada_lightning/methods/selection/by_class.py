"""Selections that look at the class of a response: the whole pool, as many of each class, or nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Selection, Trait
from ada_lightning.core.records import KeptResponse, Response, ResponsePool
from ada_lightning.methods.checked import Check, Checked, at_least
from ada_lightning.methods.selection.weights import by_label, with_selection_weights


@option("selection", "all")
class AllSelection(Selection):
    """Every response of the pool trains: GRPO's groups, and the lowest variance where memory allows."""

    traits = frozenset({Trait.KEEPS_WHAT_THERE_IS})

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the pool in launch order, each with weight 1 (more where masked responses do not train)."""
        return with_selection_weights(pool, pool.trainable())


@option("selection", "seen")
class SeenSelection(Selection):
    """Every response of prompts that were seen before the step trains; a first visit only measures.

    Goes with ``sampler=first_visit``. What is dropped depends on history alone, never on the step's responses, so it
    decides which prompts count, no more.
    """

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return all that may train, or nothing."""
        return with_selection_weights(pool, pool.trainable()) if self.takes(pool) else ()

    def takes(self, pool: ResponsePool) -> bool:
        """Whether the prompt was seen before the step."""
        return pool.belief.is_seen

    def caveat(self) -> str:
        """Say what it does to the update."""
        return "selection: the first visit of a prompt measures its pass rate and does not train"


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


@option("selection", "balanced", group_size="${sampler.group_size}")
@dataclass(kw_only=True, eq=False)
class BalancedSelection(ClassSelection):
    """Half positives, half negatives; a shortage is filled from the other class (official code, ``downsample_cache``).

    ``group_size // 2`` positives, the rest negatives, a shortage filled positives first.

    Source:
        RLHFlow/Reinforce-Ada at 05be605, ``verl/trainer/ppo/ray_trainer.py``: ``downsample_cache`` (L1069-1083), which
        takes the first generated.
    """

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the kept responses, positives first, each class in launch order."""
        positives, negatives = by_label(pool)
        num_positive = min(self.group_size // 2, len(positives))
        num_negative = min(self.group_size - num_positive, len(negatives))
        num_positive = min(self.group_size - num_negative, len(positives))
        return with_selection_weights(pool, self.take(pool, (positives, negatives), (num_positive, num_negative)))


@option("selection", "rarer_class", max_per_class="${sampler.group_size}")
@dataclass(kw_only=True, eq=False)
class RarerClassSelection(Checked, Selection):
    """All of the rarer class and as many of the other one, first generated, at most ``max_per_class`` of each.

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
