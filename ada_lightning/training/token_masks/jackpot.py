"""After Jackpot: reject tokens so that those which train look drawn from the policy that trains.

Paper: Chen et al., "Jackpot: optimal budgeted rejection sampling for extreme actor-policy mismatch RL",
arXiv:2602.06107: keep a token with probability ``a = min(1, p / (lambda q))``, weigh it by ``p / q~``, truncated.
Claim: training stays stable where truncated importance weights alone fail, because few tokens remain that the policy
would hardly have drawn. Assumption: token by token; prefixes keep the distribution they were drawn from.
Degenerate case: where p = q, as in the first update with a rollout by an exact engine, lambda = 1 keeps everything.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ada_lightning.core.checks import refuse
from ada_lightning.core.options import option
from ada_lightning.training.batch import Microbatch
from ada_lightning.training.losses.functional import ratio
from ada_lightning.training.losses.terms import TokenTerms
from ada_lightning.training.seeded_tensors import seeded_uniform
from ada_lightning.training.token_masks.base import TokenMask


def budgeted_acceptance(ratio_K: Tensor, *, scale: float) -> Tensor:
    """Probability of keeping each token by optimal budgeted rejection sampling: ``min(1, p / (scale q))``.

    The tokens kept are distributed as ``min(q, p / scale) / Z`` with ``Z = sum_v min(q_v, p_v / scale)``, the share
    kept. Of all rules with this share it is the one whose result is closest to p.

    Args:
        ratio_K: p / q, p of the policy that trains and q of the one that the tokens were drawn from. Shape ``(K,)``.
        scale: the larger, the fewer are kept and the closer they come to p; at ``max p/q`` they are drawn from p.

    Returns:
        Shape ``(K,)``, in (0, 1].

    Source:
        Verine et al., "Optimal budgeted rejection sampling for generative models", arXiv:2311.00460.

    Example:
        >>> budgeted_acceptance(torch.tensor([0.9, 0.1]) / 0.5, scale=1.0)
        tensor([1.0000, 0.2000])
    """
    return (ratio_K / scale).clamp_max(1.0)


def acceptance_weight(ratio_K: Tensor, *, scale: float, cap: float) -> Tensor:
    """Weight of a kept token in a sum over all drawn tokens: ``min(p / (a q), cap)``, a its acceptance.

    With acceptance ``min(1, p / (scale q))`` that is ``min(max(p / q, scale), cap)``. Without the cap the sum over kept
    tokens, divided by the number of *all* drawn tokens, has the expectation under p: ``q a * p / (a q) = p``.
    Arguments and shape as in :func:`budgeted_acceptance`; ``cap`` is the largest weight.
    """
    return ratio_K.clamp(min=scale, max=cap)


@option("token_masks", "jackpot", below="jackpot")
class JackpotMask(TokenMask):
    """After Jackpot (arXiv:2602.06107): rejects tokens so that those which train look drawn from the policy as it is.

    For later updates with a rollout (``data.num_minibatches`` or ``epochs_per_rollout`` above 1; a token draws the same
    lot in every epoch). Combine with others by ``token_masks=[capo,jackpot]``. Below p is the policy as it is, q the
    engine's.

    A kept token is to weigh ``min(p / (a q), cap)``. The loss weighs it by p/q already (its ratio to the old policy
    times the importance weight against the engine), so the mask is ``1/a``, and less where the cap holds.

    What is the paper's: acceptance, weight, truncation. What is ours, and why:

    - *No normaliser.* The paper's weight is ``p / q~ = Z p / (a q)`` for a mean over the kept tokens, with Z estimated
      from the top-k log-probabilities of both models and calibrated in the batch. Every loss here divides by what was
      drawn, kept or not, so the weight without Z is the unbiased one: exactly, except for the loss's own clip and caps,
      and from the sampled token's log-probability alone. The two differ in how positions count: with Z one that rejects
      much counts less, here all count the same.
    - *lambda and cap*: the paper's are not known to us. With lambda = 1 the share kept is one minus the total variation
      distance of the two policies, ``train/jackpot_kept``.
    - The draw of a token is a function of the run's seed, its response and its position: a repeated step rejects the
      same. The rollout model is the policy itself, an update or more ago, and nothing is distilled into it.

    Args:
        acceptance_scale: the paper's lambda; larger keeps fewer tokens, closer to p (value ours).
        cap: largest weight against the engine, in all; at least ``acceptance_scale`` (value ours).
        seed: of the draws.

    Raises:
        ValueError: a value out of its range; all in one message.
    """

    name = "jackpot"

    def __init__(self, *, acceptance_scale: float = 1.0, cap: float = 2.0, seed: int = 0) -> None:
        refuse(
            not 0 < acceptance_scale < float("inf")
            and f"token_masks.jackpot.acceptance_scale must be positive and finite; got {acceptance_scale} (small "
            "values keep everything)",
            not cap >= acceptance_scale
            and f"token_masks.jackpot.cap = {cap} is less than acceptance_scale = {acceptance_scale}: every token "
            "would be cut; use a cap of at least acceptance_scale (inf: none)",
        )
        self.acceptance_scale = acceptance_scale
        self.cap = cap
        self.seed = seed

    @torch.no_grad()
    def __call__(self, terms: TokenTerms, advantages_B: Tensor, microbatch: Microbatch) -> Tensor:
        """Return what is left to multiply a kept token's p/q with, 0 where it is rejected. Shape ``(K,)``, float32."""
        ratio_K = ratio(terms.logprobs_K - terms.sampling_logprobs_K)
        acceptance_K = budgeted_acceptance(ratio_K, scale=self.acceptance_scale)
        weight_K = acceptance_weight(ratio_K, scale=self.acceptance_scale, cap=self.cap)
        draws_K = seeded_uniform(microbatch.identity_B[terms.response_K], _positions(microbatch), seed=self.seed)
        return (draws_K < acceptance_K) * weight_K / ratio_K

    def caveat(self) -> str:
        """What is rejected, and where weights end."""
        return (
            f"token_masks: jackpot keeps a token with probability min(1, p / ({self.acceptance_scale:g} q)), weighed "
            f"to make up for it, at most {self.cap:g}: p the policy as it is, q the engine's"
        )


def _positions(microbatch: Microbatch) -> Tensor:
    """Index of every token in its response. Shape ``(K,)``, int64."""
    lengths_B = microbatch.num_tokens_B.to(torch.int64)
    first_B = lengths_B.cumsum(0) - lengths_B
    return torch.arange(len(microbatch.token_ids_K), device=lengths_B.device) - first_B[microbatch.response_K]
