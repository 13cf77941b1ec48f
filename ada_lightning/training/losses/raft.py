"""RAFT++ (arXiv:2504.11343): rejection sampling with PPO's ratio and clip. Only positives train.

Claim: fitting the accepted responses comes near GRPO, whose gain lies in leaving out prompts without any. Assumes that
negatives have nothing to say; entropy falls faster without them. Degenerate case: a prompt without a positive adds
nothing, one without a negative trains all the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from torch import Tensor

from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.clipped import ClippedPolicyLoss
from ada_lightning.training.losses.terms import TensorAndSums, TokenTerms


@dataclass(kw_only=True, eq=False)
class RaftLoss(ClippedPolicyLoss):
    """``min(ratio, 1 + clip_high) A`` on the tokens of positives, 0 on those of negatives.

    ``advantage=accepted`` weighs every positive by 1, which is the paper's loss; another advantage weighs positives by
    its own and loses its negative half. The lower clip of the paper never holds: the minimum takes the ratio below it.

    The ratio is current over old policy: the first update with a rollout is plain fitting of the positives. The paper
    averages over accepted responses and their tokens: ``selection=positives loss/reduction=response_mean``. Its code
    averages over the tokens of all drawn responses, wrong ones with advantage 0: ``selection=all
    loss/reduction=token_mean``. The former weighs a step with few right responses more.

    Source:
        Section 2 (RAFT++); code ``RLHFlow/Minimal-RL`` at e3b49f0, ``verl/trainer/ppo/core_algos.py``. GVM,
        arXiv:2505.02391, trains with it.
    """

    clip_low: float = field(default=1.0, init=False)  # no ratio is below 0
    clip_high: float = 0.2
    dual_clip: float = field(default=math.inf, init=False)

    def objective(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> TensorAndSums:
        """``min(ratio, 1 + clip_high) A`` of positives. Shape ``(K,)``."""
        return super().objective(terms, advantages_B * microbatch.is_positive_B, microbatch)

    def method_bends(self) -> tuple[str, ...]:
        """Negatives do not train."""
        return ("the loss trains positives only: an advantage of negatives, if there is one, is left out",)

    def reuse_bend(self) -> str:
        """How responses of an earlier policy are weighed."""
        return f"the others weigh tokens by ratios, clipped at 1 + {self.clip_high:g}"
