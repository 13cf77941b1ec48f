"""Log-probabilities of chosen tokens without ever holding all logits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def chosen_logprobs(
    hidden_KH: Tensor,
    token_ids_K: Tensor,
    lm_head: Callable[[Tensor], Tensor],
    *,
    temperature: float,
    chunk_size: int,
) -> tuple[Tensor, Tensor]:
    """Log-probability of each token and the entropy of the distribution it was drawn from.

    Works in chunks whose logits are recomputed in the backward pass, so memory grows with ``chunk_size * V`` instead
    of ``K * V``. Chunking the forward pass alone would not help: autograd would keep every chunk.

    Args:
        hidden_KH: last hidden state at the position *before* each token. Shape ``(K, H)``.
        token_ids_K: the tokens. Shape ``(K,)``, int64.
        lm_head: hidden states to logits, ``(k, H) -> (k, V)``.
        temperature: divides the logits, as the engine did when it sampled; positive.
        chunk_size: tokens per chunk.

    Returns:
        ``logprobs_K`` in nats with gradient, and ``entropy_K`` in nats with gradient. Both float32, shape ``(K,)``.

    Raises:
        ValueError: ``hidden_KH`` and ``token_ids_K`` differ in K.

    Example:
        >>> hidden, head = torch.zeros(2, 3), torch.nn.Linear(3, 4, bias=False)
        >>> logprobs, entropy = chosen_logprobs(hidden, torch.tensor([0, 3]), head, temperature=1.0, chunk_size=1)
        >>> torch.allclose(logprobs, torch.full((2,), 0.25).log()), torch.allclose(entropy, torch.tensor(4.0).log())
        (True, True)
    """
    if hidden_KH.shape[0] != token_ids_K.shape[0]:
        raise ValueError(f"{hidden_KH.shape[0]} hidden states for {token_ids_K.shape[0]} tokens")

    def one_chunk(hidden_kH: Tensor, token_ids_k: Tensor) -> tuple[Tensor, Tensor]:
        logits_kV = lm_head(hidden_kH).float() / temperature
        log_norm_k = logits_kV.logsumexp(dim=-1)
        chosen_k = logits_kV.gather(-1, token_ids_k[:, None]).squeeze(-1)
        expected_k = ((logits_kV - log_norm_k[:, None]).exp() * logits_kV).sum(dim=-1)
        return chosen_k - log_norm_k, log_norm_k - expected_k

    pairs = [
        checkpoint(one_chunk, hidden_kH, token_ids_k, use_reentrant=False)
        for hidden_kH, token_ids_k in zip(hidden_KH.split(chunk_size), token_ids_K.split(chunk_size), strict=True)
    ]
    return torch.cat([logprobs_k for logprobs_k, _ in pairs]), torch.cat([entropy_k for _, entropy_k in pairs])
