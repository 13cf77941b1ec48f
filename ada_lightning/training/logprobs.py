"""Log-probabilities of chosen tokens without ever holding all logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

_BLOCK_NUMBERS = 2**20
"""Logits that pass through float32 at once on a CPU: 4 MiB stay in the caches of its cores."""


def chosen_logprobs(
    hidden_KH: Tensor,
    token_ids_K: Tensor,
    lm_head: nn.Linear,
    *,
    temperature: float,
    chunk_size: int,
    entropy_gradient: bool = True,
) -> tuple[Tensor, Tensor]:
    """Log-probability of each token and the entropy of the distribution it was drawn from.

    Works in chunks whose logits are recomputed in the backward pass, so memory grows with ``chunk_size * V`` instead
    of ``K * V``. Only the last chunk's logits are kept: its memory was needed anyway, and where all tokens fit in one
    chunk nothing is recomputed. Matrix products have the autocast type; everything else is float32, a few rows at a
    time, so that no second copy of a chunk exists.

    Args:
        hidden_KH: last hidden state at the position *before* each token. Shape ``(K, H)``.
        token_ids_K: the tokens. Shape ``(K,)``, int64.
        lm_head: hidden states to logits, ``(k, H) -> (k, V)``.
        temperature: divides the logits, as the engine did when it sampled; positive.
        chunk_size: tokens per chunk.
        entropy_gradient: False where nothing depends on the entropy: it is computed all the same, without gradient.

    Returns:
        ``logprobs_K`` and ``entropy_K`` in nats, float32, shape ``(K,)``.

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
    device_type = hidden_KH.device.type
    dtype = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else hidden_KH.dtype
    logprobs_K, entropy_K = _ChosenLogprobs.apply(
        hidden_KH, lm_head.weight, lm_head.bias, token_ids_K, temperature, chunk_size, dtype
    )
    return logprobs_K, entropy_K if entropy_gradient else entropy_K.detach()


class _ChosenLogprobs(torch.autograd.Function):
    """Written out, since autograd would keep float32 copies of a chunk for each of ten elementwise steps.

    With z the tempered logits, p their softmax, H its entropy and y the chosen token:
    ``d logprob / dz_v = [v = y] - p_v`` and ``d H / dz_v = -p_v (log p_v + H)``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_KH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        token_ids_K: Tensor,
        temperature: float,
        chunk_size: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        hidden, weight = hidden_KH.to(dtype), weight_VH.to(dtype)
        bias = None if bias_V is None else bias_V.to(dtype)
        logprobs_K, log_norm_K, entropy_K = (
            torch.empty(len(token_ids_K), dtype=torch.float32, device=hidden.device) for _ in range(3)
        )
        logits_kV: Tensor | None = None
        for chunk in _cuts(len(token_ids_K), chunk_size):
            logits_kV = nn.functional.linear(hidden[chunk], weight, bias)
            for block in _blocks(logits_kV):
                rows = slice(chunk.start + block.start, chunk.start + block.stop)
                z_kV = logits_kV[block].to(torch.float32, copy=True).div_(temperature)
                chosen_k = z_kV.gather(-1, token_ids_K[rows, None]).squeeze(-1)
                top_k1 = z_kV.amax(dim=-1, keepdim=True)
                z_kV -= top_k1
                exp_kV = z_kV.exp()
                sum_k = exp_kV.sum(dim=-1)
                log_norm_K[rows] = sum_k.log() + top_k1.squeeze(-1)
                entropy_K[rows] = sum_k.log() - exp_kV.mul_(z_kV).sum(dim=-1) / sum_k
                logprobs_K[rows] = chosen_k - log_norm_K[rows]
        ctx.save_for_backward(hidden, weight, bias, token_ids_K, log_norm_K, entropy_K, logits_kV)
        ctx.settings = temperature, chunk_size, hidden_KH.dtype, weight_VH.dtype
        return logprobs_K, entropy_K

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_logprobs_K: Tensor | None, grad_entropy_K: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, token_ids_K, log_norm_K, entropy_K, kept_kV = ctx.saved_tensors
        temperature, chunk_size, hidden_dtype, weight_dtype = ctx.settings
        if grad_logprobs_K is None:
            grad_logprobs_K = torch.zeros_like(log_norm_K)
        grad_hidden = torch.empty_like(hidden)
        # Chunks add up in float32, also where shards are gathered in bfloat16.
        sum_dtype = torch.promote_types(weight_dtype, torch.float32)
        grad_weight = torch.zeros_like(weight, dtype=sum_dtype) if ctx.needs_input_grad[1] else None
        grad_bias = None if bias is None else torch.zeros_like(bias, dtype=sum_dtype)
        with torch.autocast(hidden.device.type, enabled=False):
            for chunk in _cuts(len(token_ids_K), chunk_size):
                is_last = chunk.stop == len(token_ids_K)
                grad_kV = kept_kV if is_last else nn.functional.linear(hidden[chunk], weight, bias)
                for block in _blocks(grad_kV):  # from logits to their gradients, in place
                    rows = slice(chunk.start + block.start, chunk.start + block.stop)
                    log_p_kV = grad_kV[block].float().div_(temperature).sub_(log_norm_K[rows, None])
                    p_kV = log_p_kV.exp()
                    if grad_entropy_K is None:
                        total_kV = p_kV.mul_(-grad_logprobs_K[rows, None])
                    else:
                        factor_kV = log_p_kV.add_(entropy_K[rows, None]).mul_(grad_entropy_K[rows, None])
                        total_kV = p_kV.mul_(factor_kV.add_(grad_logprobs_K[rows, None])).neg_()
                    total_kV.scatter_add_(1, token_ids_K[rows, None], grad_logprobs_K[rows, None])
                    grad_kV[block] = total_kV.div_(temperature)
                grad_hidden[chunk] = grad_kV @ weight
                if grad_weight is not None:
                    grad_weight += grad_kV.mT @ hidden[chunk]
                if grad_bias is not None:
                    grad_bias += grad_kV.sum(dim=0, dtype=sum_dtype)
        of_weight, of_bias = (None if g is None else g.to(weight_dtype) for g in (grad_weight, grad_bias))
        return grad_hidden.to(hidden_dtype), of_weight, of_bias, None, None, None, None


def _cuts(total: int, size: int) -> Iterator[slice]:
    return (slice(first, min(first + size, total)) for first in range(0, total, size))


def _blocks(logits_kV: Tensor) -> Iterator[slice]:
    """Rows to convert at once: a GPU is faster with all of them."""
    num_rows, vocabulary = logits_kV.shape
    return _cuts(num_rows, max(1, _BLOCK_NUMBERS // vocabulary) if logits_kV.device.type == "cpu" else num_rows)
