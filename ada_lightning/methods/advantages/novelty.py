"""XRPO's novelty bonus: right answers that the policy finds unlikely count more (arXiv:2510.06672, section 3.3).

Claim: among a prompt's right answers the unlikely ones widen what the policy can do. Assumption: the mean
log-probability of a token says how novel an answer is. Degenerate case: answers that are all equally likely get no
bonus, and neither do wrong ones; a group of equal rewards has no advantage that could be raised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import ClassVar

from ada_lightning.core.protocols import Compared
from ada_lightning.core.records import Response, ResponseGroup
from ada_lightning.methods.advantages.assigned import AssignedAdvantage


class NoveltyAdvantage(AssignedAdvantage):
    """GRPO's advantage, plus ``min(max(scale (1 - eta), 0), cap A)`` for right answers.

    With s(y) the mean of an answer's token log-probabilities, as the engine drew them, and m the mean of s over the
    kept group, ``eta = exp(s(y) - m)``: below 1 for an answer that is less likely than its group.

    Args:
        scale: of the bonus.
        cap: largest bonus, as a share of the advantage.
        normalize_std: divide by the group's standard deviation, as in
            :class:`~ada_lightning.methods.advantages.group_normalized.GroupNormalizedAdvantage`.

    Raises:
        ValueError: ``scale`` or ``cap`` negative or not finite; both in one message.

    Source:
        Bamba et al., arXiv:2510.06672 (scale 2.5, cap 0.5).
    """

    compares: ClassVar[Compared] = "kept"

    def __init__(self, *, scale: float = 2.5, cap: float = 0.5, normalize_std: bool = True) -> None:
        errors = [
            f"advantage.{name} must be 0 or positive, and finite; got {value}"
            for name, value in (("scale", scale), ("cap", cap))
            if not 0 <= value < math.inf
        ]
        if errors:
            raise ValueError("; ".join(errors))
        self.scale = scale
        self.cap = cap
        self.normalize_std = normalize_std

    def assign(self, groups: Sequence[ResponseGroup]) -> list[list[float]]:
        """Return the advantages group by group; the bonus looks at one group only."""
        return [self._of_group([kept.response for kept in group.kept]) for group in groups]

    def _of_group(self, responses: Sequence[Response]) -> list[float]:
        if not responses:
            return []
        rewards = [response.reward for response in responses]
        spread = (stdev(rewards) if len(rewards) > 1 else 0.0) + 1e-6 if self.normalize_std else 1.0
        scores = [fmean(response.sampling_logprobs or [0.0]) for response in responses]
        mean_reward, mean_score = fmean(rewards), fmean(scores)
        advantages = []
        for response, score in zip(responses, scores, strict=True):
            advantage = (response.reward - mean_reward) / spread
            if response.is_positive and advantage > 0:
                novelty = self.scale * (1.0 - math.exp(score - mean_score))
                advantage += min(max(novelty, 0.0), self.cap * advantage)
            advantages.append(advantage)
        return advantages
