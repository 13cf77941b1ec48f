"""Attention over all documents of a microbatch by one call of torch's kernel for sequences of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Sequences:
    """The documents of a microbatch as the kernel takes them. S keys, n sequences.

    A sequence's queries are the last of its keys. The first of a document is its prompt with its first response; each
    other response is one whose keys begin with the prompt's.
    """

    key_token_S: Tensor | None
    """Which packed token each key is; None where no prompt is shared, so that every key is at its token's place."""
    query_ends: Tensor
    """0, then the end of each sequence's queries. Shape ``(n + 1,)``, int32."""
    key_ends: Tensor
    """0, then the end of each sequence's keys."""
    longest_query: int
    longest_key: int


def packed_sequences(lengths: Sequence[tuple[int, ...]], device: torch.device) -> Sequences:
    """Return the sequences of documents, of each of which are given the tokens of its prompt and of its responses.

    Example:
        >>> found = packed_sequences([(2, 1, 3), (1, 1)], torch.device("cpu"))
        >>> found.key_token_S.tolist(), found.query_ends.tolist(), found.key_ends.tolist()
        ([0, 1, 2, 0, 1, 3, 4, 5, 6, 7], [0, 3, 6, 8], [0, 3, 8, 10])
    """
    parts: list[tuple[range, range]] = []
    """Tokens of a prompt that stands elsewhere, and those that are the queries."""
    first = 0
    for num_prompt, *responses in lengths:
        prompt, nowhere = range(first, first + num_prompt), range(0)
        first += num_prompt + sum(responses[:1])
        parts.append((nowhere, range(prompt.start, first)))
        for num_tokens in responses[1:]:
            parts.append((prompt, range(first, first + num_tokens)))
            first += num_tokens
    parts = [(prompt, own) for prompt, own in parts if own]
    num_queries = [len(own) for _, own in parts]
    num_keys = [len(prompt) + len(own) for prompt, own in parts]
    key_token_S = None
    if num_keys != num_queries:
        key_token_S = torch.tensor([token for both in parts for part in both for token in part], device=device)
    query_ends, key_ends = (
        torch.tensor([0, *accumulate(sizes)], dtype=torch.int32, device=device) for sizes in (num_queries, num_keys)
    )
    return Sequences(key_token_S, query_ends, key_ends, max(num_queries), max(num_keys))


def can_attend(query: Tensor) -> bool:
    """Whether torch's kernel takes such a tensor: half precision on an NVIDIA GPU from Ampere on.

    Args:
        query: heads of size C, which flash attention wants to be a multiple of 8, up to 256. Shape ``(..., C)``.
    """
    size = query.shape[-1]
    is_wanted = query.dtype in (torch.bfloat16, torch.float16) and size % 8 == 0 and size <= 256
    return is_wanted and query.is_cuda and _has_kernel(query.device)


@cache
def _has_kernel(device: torch.device) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def attend_varlen(
    query_TMC: Tensor, key_TNC: Tensor, value_TNC: Tensor, sequences: Sequences, scale: float, window: int = 0
) -> Tensor:
    """Attend to every document of the microbatch.

    Nothing that nobody sees is computed, prompts are computed once, and a layer costs a handful of kernels however many
    documents there are.

    Args:
        query_TMC: M query heads of size C over all T tokens of the microbatch. Shape ``(T, M, C)``.
        key_TNC: N key heads, each for ``M / N`` query heads in order. Shape ``(T, N, C)``.
        value_TNC: as keys.
        sequences: where the documents are.
        scale: of the scores.
        window: tokens that a sliding window lets a query see, itself included; 0 where there is none.

    Returns:
        Shape ``(T, M, C)``.
    """
    from torch.nn.attention.varlen import varlen_attn

    if sequences.key_token_S is not None:
        key_TNC, value_TNC = (_Repeated.apply(x, sequences.key_token_S) for x in (key_TNC, value_TNC))
    result = varlen_attn(
        query_TMC,
        key_TNC,
        value_TNC,
        sequences.query_ends,
        sequences.key_ends,
        sequences.longest_query,
        sequences.longest_key,
        scale=scale,
        window_size=(window - 1, 0),
        enable_gqa=True,
    )
    assert isinstance(result, Tensor)  # a pair only where asked for
    return result


class _Repeated(torch.autograd.Function):
    """Keys or values where the kernel wants them. What a prompt's gradient is made of adds up in float32."""

    @staticmethod
    def forward(ctx: Any, x_TNC: Tensor, token_S: Tensor) -> Tensor:
        ctx.save_for_backward(token_S)
        ctx.shape = x_TNC.shape
        return x_TNC.index_select(0, token_S)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_SNC: Tensor) -> tuple[Tensor, None]:
        (token_S,) = ctx.saved_tensors
        sum_TNC = grad_SNC.new_zeros(ctx.shape, dtype=torch.float32).index_add_(0, token_S, grad_SNC.float())
        return sum_TNC.to(grad_SNC.dtype), None
