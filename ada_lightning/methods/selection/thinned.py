"""Trains only some of the prompts whose rewards are all equal, by chance, and gives those more weight."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ada_lightning.core.options import option
from ada_lightning.core.protocols import Selection, Trait
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.checked import Check, Checked
from ada_lightning.methods.functional import expected_by_history
from ada_lightning.methods.selection.weights import with_selection_weights


@option("selection", "thinned")
@dataclass(kw_only=True, eq=False)
class ThinnedSelection(Checked, Selection):
    """Of groups with equal rewards few train, by the size of their advantage, and those weigh more: unbiased.

    Goes with ``advantage=history_baseline`` and ``loss/reduction=constant``. Saves updates, not rollouts. A pool whose
    rewards differ is kept whole.

    A baseline from history leaves such a pool an advantage A, the same for all of its responses and small where it was
    to be expected: four right answers to a prompt that is nearly always answered. Training it costs as much as any
    other. It is kept with probability ``q = min(1, |A| / full_advantage)``, with its advantages times 1/q, so the
    expected update is that of all pools (Horvitz-Thompson), and no advantage exceeds what it was or ``full_advantage``.

    Assumed: the denominator of the loss does not depend on what is kept (``loss/reduction=constant``, or
    ``prompt_mean``, where a prompt that is left out still counts); no KL and no entropy term, which would count it as
    nothing and are refused. Whole pools go, since the responses of one share the computation of
    their prompt.

    Degenerate: an advantage of exactly 0 is left out for certain, and was worth nothing.

    Source:
        Ours; for importance sampling in proportion to the size of what is added up: Horvitz and Thompson 1952. What it
        costs and saves: ``python -m research.studies.field.fresh``.
    """

    traits = frozenset({Trait.PRUNES_PROMPTS, Trait.KEEPS_WHAT_THERE_IS})

    full_advantage: float = 0.3
    """Absolute advantage from which a pool is always kept; in the reward's unit. The larger, the less
    trains and the noisier the update is."""
    seed: int = 0
    """Of the draws; with step, slot and prompt it decides, so a repeated or resumed step keeps the same."""

    def _checks(self) -> Iterator[Check]:
        yield (
            0 < self.full_advantage < math.inf,
            f"selection.full_advantage must be above 0 and finite; got {self.full_advantage}",
        )

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return all that may train or nothing, in launch order."""
        kept = with_selection_weights(pool, pool.trainable())
        if pool.has_signal or len({each.response.reward for each in kept}) != 1:
            return kept
        rewards = np.array([each.response.reward for each in kept], dtype=np.float64)
        advantage = float(rewards[0] - expected_by_history(rewards, pool.belief)[0])
        probability = min(1.0, abs(advantage) / self.full_advantage)
        generator = random.Random(f"thin/{self.seed}/{pool.step}/{pool.slot}/{pool.prompt.prompt_id}")
        if generator.random() >= probability:
            return ()
        return tuple(replace(each, inverse_probability=1.0 / probability) for each in kept)

    def caveat(self) -> str:
        """Say what it does to the update."""
        return (
            "selection: prompts whose rewards are all equal train with a probability in proportion to their advantage, "
            f"up to {self.full_advantage:g}, and weigh its inverse: the expected update is that of all of them"
        )
