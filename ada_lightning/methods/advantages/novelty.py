"""XRPO's novelty bonus: right answers that the policy finds unlikely count more (arXiv:2510.06672, section 3.3).

Claim: among a prompt's right answers the unlikely ones widen what the policy can do. Assumption: the mean
log-probability of a token says how novel an answer is. Degenerate case: answers that are all equally likely get no
bonus, and neither do wrong ones; a group of equal rewards has no advantage that could be raised.
"""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages.group_normalized import GroupNormalizedAdvantage


class NoveltyAdvantage(Advantage):
    """GRPO's advantage, plus ``min(max(scale (1 - eta), 0), cap A)`` for right answers.

    With s(y) the mean of an answer's token log-probabilities, as the engine drew them, and m the mean of s over the
    kept group, ``eta = exp(s(y) - m)``: below 1 for an answer that is less likely than its group.

    Args:
        scale: of the bonus.
        cap: largest bonus, as a share of the advantage.
        normalize_std: divide by the group's standard deviation, as GRPO does.

    Raises:
        ValueError: ``scale`` or ``cap`` negative or not finite; both in one message.

    Source:
        Bamba et al., arXiv:2510.06672 (scale 2.5, cap 0.5).
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    def __init__(self, *, scale: float = 2.5, cap: float = 0.5, normalize_std: bool = True) -> None:
        errors = [
            f"advantage.{name} must be 0 or positive, and finite; got {value}"
            for name, value in (("scale", scale), ("cap", cap))
            if not 0 <= value < math.inf
        ]
        if errors:
            raise ValueError("; ".join(errors))
        self.normalize_std = normalize_std
        self.plain = GroupNormalizedAdvantage(normalize_std=normalize_std)
        self.scale = scale
        self.cap = cap

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return the advantages, bonus included."""
        scores = [fmean(kept.response.sampling_logprobs or [0.0]) for kept in group.kept]
        mean_score = fmean(scores)
        advantages = []
        for kept, advantage, score in zip(group.kept, self.plain.of_group(group).tolist(), scores, strict=True):
            if kept.response.is_positive and advantage > 0:
                novelty = self.scale * (1.0 - math.exp(score - mean_score))
                advantage += min(max(novelty, 0.0), self.cap * advantage)
            advantages.append(advantage)
        return np.array(advantages)
