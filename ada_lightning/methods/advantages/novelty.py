"""XRPO's novelty bonus: right answers that the policy finds unlikely count more (arXiv:2510.06672, section 3.3).

Claim: among a prompt's right answers the unlikely ones widen what the policy can do. Assumption: the mean
log-probability of a token says how novel an answer is. Degenerate case: answers that are all equally likely get no
bonus, and neither do wrong ones; a group of equal rewards has no advantage that could be raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from ada_lightning.core.protocols import Advantage, Trait
from ada_lightning.core.records import ResponseGroup
from ada_lightning.methods.advantages.baselines import GroupNormalizedAdvantage
from ada_lightning.methods.checked import Check, Checked


@dataclass(kw_only=True, eq=False)
class NoveltyAdvantage(Checked, Advantage):
    """GRPO's advantage, plus ``min(max(scale (1 - eta), 0), cap A)`` for right answers.

    With s(y) the mean of an answer's token log-probabilities, as the engine drew them, and m the mean of s over the
    kept group, ``eta = exp(s(y) - m)``: below 1 for an answer that is less likely than its group.

    Source:
        Bamba et al., arXiv:2510.06672 (scale 2.5, cap 0.5).
    """

    traits = frozenset({Trait.COMPARES_KEPT})

    scale: float = 2.5
    """Of the bonus."""
    cap: float = 0.5
    """Largest bonus, as a share of the advantage."""
    normalize_std: bool = True
    """Divide by the group's standard deviation, as GRPO does."""

    def _checks(self) -> Iterator[Check]:
        for name, value in (("scale", self.scale), ("cap", self.cap)):
            yield 0 <= value < math.inf, f"advantage.{name} must be 0 or positive, and finite; got {value}"

    def of_group(self, group: ResponseGroup) -> NDArray[np.float64]:
        """Return the advantages, bonus included."""
        plain = GroupNormalizedAdvantage(normalize_std=self.normalize_std).of_group(group)
        scores = np.array([fmean(kept.response.sampled_logprobs or [0.0]) for kept in group.kept])
        novelty = self.scale * (1.0 - np.exp(scores - scores.mean()))
        is_right = np.array([kept.response.is_positive for kept in group.kept]) & (plain > 0)
        return plain + np.where(is_right, np.clip(novelty, 0.0, self.cap * np.abs(plain)), 0.0)
