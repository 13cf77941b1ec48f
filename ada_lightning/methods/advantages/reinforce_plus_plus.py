"""REINFORCE++-baseline, arXiv:2501.03262: the group's mean is the baseline, the whole rollout sets the scale.

Claim: robust where groups of equal rewards are frequent and GRPO's standard deviation misleads. Assumes many prompts
per step. Degenerate case: groups of equal rewards have the advantage of the rollout's mean, see ``by_tokens``.
"""

from __future__ import annotations

from ada_lightning.core.protocols import Trait
from ada_lightning.methods.advantages.batch_whitened import BatchWhitenedAdvantage
from ada_lightning.methods.advantages.group_normalized import GroupNormalizedAdvantage


class ReinforcePlusPlusBaselineAdvantage(BatchWhitenedAdvantage):
    """Reward minus the mean of its kept group, whitened over the rollout.

    Groups without signal, ragged groups: see :class:`BatchWhitenedAdvantage`. A response in its own baseline takes its
    share: ``(n - 1) / n`` of the update, less for small groups than for large ones.

    Args:
        by_tokens: count a response as often as it has tokens, as OpenRLHF and verl do. Groups of equal rewards then
            train a little, all of their responses by the same amount, against the mean over tokens.

    Source:
        REINFORCE++ with baseline, arXiv:2501.03262, section 3; there KL is part of the reward, here of the loss.
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    def __init__(self, *, by_tokens: bool = True) -> None:
        super().__init__(advantage=GroupNormalizedAdvantage(normalize_std=False), by_tokens=by_tokens)
