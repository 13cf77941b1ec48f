"""Prunes responses of little advantage at random, and weighs the others so that nothing is lost in expectation."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ada_lightning.core.protocols import Trait
from ada_lightning.core.records import KeptResponse, ResponsePool
from ada_lightning.methods.selection.magnitude import AdvantageSelection, pool_advantages
from ada_lightning.methods.selection.weights import with_selection_weights

_RELATIVE_TIE = 1e-9
"""Advantages nearer than this to their mean are not below it."""


@dataclass(kw_only=True, eq=False)
class PruningSelection(AdvantageSelection):
    """Leaves out responses whose absolute advantage is below their pool's mean with probability ``rate``.

    The claim: responses of little advantage cost as much as others; pruning them at random and weighing those of them
    that stay by ``1 / (1 - rate)`` (Horvitz-Thompson) gives the same expected update in less time.

    Assumed, and kept here: the probability is fixed before the draw; the advantage does not depend on what was kept
    (``advantage=official`` takes mean and standard deviation of the whole pool); the denominator of the loss does not
    either (``loss/reduction=constant``; one that divides by what was kept is off by nearly a factor of two in small
    batches); no clipping, and no KL and no entropy term, which are refused. Variance grows with ``1 / (1 - rate)``; the
    paper recommends at most 0.7.

    Degenerate: where half of a pool is right all advantages are equally large and nothing is pruned; a pool of equal
    rewards has nothing below its mean either, and is not computed anyway. All of a pool can be pruned only if no
    response reaches the mean, which cannot be.

    Source:
        "Unbiased Dynamic Pruning for Efficient Group-Based Policy Optimization", arXiv:2603.04135: pruning below the
        mean and the weights. Its appendix prunes a fixed fraction, which its proof does not cover and which is biased,
        as :class:`~ada_lightning.methods.published.cppo.LargestAdvantageSelection` is. Which probability belongs to
        which response is not stated; below the mean or not is the rule of InfoBatch (arXiv:2303.04947), which it builds
        on.
    """

    traits = frozenset({Trait.RANKS_BY_ADVANTAGE, Trait.PRUNES_RESPONSES})

    seed: int = 0
    """Of the draws; with step, slot and prompt it decides, so a repeated or resumed step prunes the same."""

    def select(self, pool: ResponsePool) -> tuple[KeptResponse, ...]:
        """Return the responses that stay, in launch order.

        ``selection_weight`` is that of the pool before pruning, so whoever reads the kept numbers of a class out of it
        gets those before pruning too; ``inverse_probability`` alone undoes the pruning.
        """
        generator = random.Random(f"prune/{self.seed}/{pool.step}/{pool.slot}/{pool.prompt.prompt_id}")
        magnitudes = [abs(advantage) for advantage in pool_advantages(pool, normalize_std=False)]
        threshold = sum(magnitudes) / max(len(magnitudes), 1) * (1.0 - _RELATIVE_TIE)
        of_trainable = [
            value for value, response in zip(magnitudes, pool.responses, strict=True) if not response.is_masked
        ]
        kept = []
        for candidate, magnitude in zip(with_selection_weights(pool, pool.trainable()), of_trainable, strict=True):
            is_pruned = generator.random() < self.rate
            if magnitude >= threshold:
                kept.append(candidate)
            elif not is_pruned:
                kept.append(replace(candidate, inverse_probability=1.0 / (1.0 - self.rate)))
        return tuple(kept)

    def bend(self) -> str:
        """Say what it does to the update."""
        return (
            f"selection: small advantages are pruned with probability {self.rate:g} and weighed by its inverse: the "
            "expected update is that of the whole pools"
        )
