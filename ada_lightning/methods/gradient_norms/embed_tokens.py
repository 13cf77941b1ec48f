"""The gradient of the input embeddings, by a backward pass for each response: what the authors of GVM measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ada_lightning.core.protocols import PolicyView
from ada_lightning.core.records import Response, ResponsePool
from ada_lightning.methods.gradient_norms.of_policy import PolicyGradientNorm


class EmbedTokensNorm(PolicyGradientNorm):
    """``|d log pi(response) / d embed_tokens|``: a forward and a backward pass through the whole model per response.

    About three times the forward pass of :class:`~ada_lightning.methods.gradient_norms.lm_head.LmHeadNorm`, one
    response at a time, and as much memory as the embedding. Where input and output embeddings are one matrix it is the
    gradient of that matrix, through both ends. Their code takes it in bfloat16, here it has the run's precision.

    Source:
        Authors' code ``RLHFlow/GVM``, ``em/run_em.sh`` and ``stage_2_calc_acceptRates_grads.py`` L153-195 at d640a75.
    """

    def norms(self, policy: PolicyView, microbatch: Any) -> list[float]:
        """Return the length of the one response's gradient."""
        with torch.enable_grad():
            logprobs_K, _ = policy.token_logprobs(policy.model, microbatch)
            (gradient_VH,) = torch.autograd.grad(logprobs_K.sum(), policy.model.get_input_embeddings().weight)
        return [float(gradient_VH.float().norm())]

    def _parts(self, pool: ResponsePool, responses: Sequence[Response]) -> Iterator[list[Response]]:
        """One response at a time: the gradient of a sum does not tell the lengths of its parts."""
        return ([response] for response in responses)
