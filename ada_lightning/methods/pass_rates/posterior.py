"""The pool, shrunk towards the prompt's history."""

from __future__ import annotations

from torch import Tensor

from ada_lightning.core.batch import Microbatch


class PosteriorRate:
    """Posterior mean of Beta(alpha, beta) after the pool: never 0 or 1, and steadier where a prompt was seen before.

    Counts at a stopping time are as informative as any (the likelihood does not know the rule), so no correction for
    stopping is due; the mean is as biased as its prior.
    """

    def __call__(self, microbatch: Microbatch) -> Tensor:
        """Shape ``(B,)``, inside (0, 1)."""
        strength_B = microbatch.prior_alpha_B + microbatch.prior_beta_B
        return (microbatch.prior_alpha_B + microbatch.pool_reward_sum_B) / (strength_B + microbatch.num_sampled_B)
