"""Length of a response's score with respect to the output layer, without a backward pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def output_score_norms(
    hidden_KH: Tensor,
    token_ids_K: Tensor,
    lengths_B: Sequence[int],
    lm_head: nn.Linear,
    *,
    temperature: float,
    chunk_size: int,
) -> Tensor:
    """Frobenius norm of the gradient of each response's log-probability with respect to the output weights.

    With z = (W h + b) / temperature the gradient is ``sum over tokens of (e_y - pi) h^T / temperature``, shape
    ``(V, H)``. Its rows are made a chunk of the vocabulary at a time and only their squares are kept, so memory is
    ``chunk_size * (K + H)``. About three times the work of the logits alone.

    Args:
        hidden_KH: last hidden state at the position before each token. Shape ``(K, H)``.
        token_ids_K: the tokens, response after response. Shape ``(K,)``, int64.
        lengths_B: tokens of each response.
        lm_head: hidden states to logits.
        temperature: divides the logits.
        chunk_size: tokens of the vocabulary at a time.

    Returns:
        Shape ``(B,)``, float32.

    Raises:
        ValueError: the lengths do not add up to K.

    Example:
        >>> head = torch.nn.Linear(1, 2, bias=False)
        >>> _ = torch.nn.init.zeros_(head.weight)
        >>> hidden, tokens = torch.tensor([[2.0], [2.0]]), torch.tensor([0, 0])
        >>> output_score_norms(hidden, tokens, [1, 1], head, temperature=1.0, chunk_size=1)  # |(1/2, -1/2)| times 2
        tensor([1.4142, 1.4142])
    """
    if sum(lengths_B) != len(token_ids_K) or len(token_ids_K) != len(hidden_KH):
        raise ValueError(
            f"lengths add up to {sum(lengths_B)} for {len(token_ids_K)} tokens and {len(hidden_KH)} hidden states"
        )
    with torch.no_grad(), torch.autocast(hidden_KH.device.type, enabled=False):
        hidden_KH = hidden_KH.float()
        log_norm_K = torch.full(token_ids_K.shape, -torch.inf, device=hidden_KH.device)
        for first in range(0, lm_head.weight.shape[0], chunk_size):
            log_norm_K = torch.logaddexp(log_norm_K, _logits(hidden_KH, lm_head, first, chunk_size, temperature)[1])
        squares_B = torch.zeros(len(lengths_B), device=hidden_KH.device)
        for first in range(0, lm_head.weight.shape[0], chunk_size):
            logits_Kv, _ = _logits(hidden_KH, lm_head, first, chunk_size, temperature)
            score_Kv = -(logits_Kv - log_norm_K[:, None]).exp()
            rows = torch.nonzero((token_ids_K >= first) & (token_ids_K < first + chunk_size)).squeeze(-1)
            score_Kv[rows, token_ids_K[rows] - first] += 1.0
            parts = zip(score_Kv.split(list(lengths_B)), hidden_KH.split(list(lengths_B)), strict=True)
            squares_B += torch.stack([(score.mT @ hidden).square().sum() for score, hidden in parts])
        return squares_B.sqrt() / temperature


def _logits(hidden_KH: Tensor, lm_head: nn.Linear, first: int, size: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Tempered logits of a chunk of the vocabulary and the logarithm of their summed exponentials."""
    bias = None if lm_head.bias is None else lm_head.bias[first : first + size].float()
    logits_Kv = nn.functional.linear(hidden_KH, lm_head.weight[first : first + size].float(), bias) / temperature
    return logits_Kv, logits_Kv.logsumexp(dim=-1)
