"""The gradient of the output layer's weights, in closed form: a forward pass, no backward pass (ours)."""

from __future__ import annotations

from typing import Any

import torch

from ada_lightning.core.protocols import PolicyView
from ada_lightning.methods.gradient_norms.of_policy import PolicyGradientNorm
from ada_lightning.methods.gradient_norms.score_norm import output_score_norms


class LmHeadNorm(PolicyGradientNorm):
    """``|sum over tokens of (e_y - pi) h^T / temperature|``, with h the last hidden state before each token.

    Where input and output embeddings are one matrix (SmolLM2, small Qwen models), it is the part of its gradient that
    comes through the output.

    Args:
        max_tokens: tokens of a forward pass; a response that is longer by itself stands alone.
        chunk_size: logits of so many tokens of the vocabulary are held at once, for all tokens of the pass.

    Raises:
        ValueError: a size below 1; the base class says more.
    """

    def __init__(self, *, max_tokens: int = 1024, chunk_size: int = 8192) -> None:
        if chunk_size < 1:
            raise ValueError(f"gradient_norm.chunk_size must be at least 1; got {chunk_size}")
        self.chunk_size = chunk_size
        super().__init__(max_tokens=max_tokens)

    @torch.no_grad()
    def norms(self, policy: PolicyView, microbatch: Any) -> list[float]:
        """Return the length of each response's gradient."""
        hidden_TH = policy.hidden_states(policy.model, microbatch)
        return output_score_norms(
            hidden_TH[microbatch.predictor_K],
            microbatch.token_ids_K,
            [int(length) for length in microbatch.num_tokens_B],
            policy.model.get_output_embeddings(),
            temperature=policy.temperature,
            chunk_size=self.chunk_size,
        ).tolist()
