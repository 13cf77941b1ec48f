"""The reward itself: REINFORCE without a baseline."""

from __future__ import annotations

from torch import Tensor

from ada_lightning.batch import Microbatch


class RewardAdvantage:
    """Every response weighs its own reward, so that wrong ones do nothing where rewards are 0 and 1.

    With ``selection=positives`` and ``loss/reduction=prompt_mean`` the update is RAFT's: the mean over a prompt's right
    answers of ``grad log pi``, in expectation ``grad log p`` times the chance that there is one.

    Source:
        Williams 1992 without the baseline; RAFT++, Xiong et al., arXiv:2504.11343, section 3.
    """

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Return the rewards. Shape ``(B,)``, float32."""
        return microbatch.rewards_B
