"""Attention document by document: many short ones at once, and a long one response by response."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention

from ada_lightning.training.attention.layout import LongDocument, ShortDocuments, is_hidden


def attend_short(query_tMC: Tensor, key_tNC: Tensor, value_tNC: Tensor, block: ShortDocuments, scale: float) -> Tensor:
    """Let the documents of a block attend each to itself.

    The CPU's flash kernel spends most of its backward pass on overhead at this size; products over all documents and
    heads at once take a third of its time. The probabilities are kept for the backward pass, ``D * M * W**2`` numbers
    of the inputs' type, which is why long documents go elsewhere.

    Args:
        query_tMC: M query heads of size C. Shape ``(t, M, C)``, t being the block's tokens.
        key_tNC: N key heads, each for ``M / N`` query heads in order. Shape ``(t, N, C)``.
        value_tNC: as keys.
        block: where the documents are.
        scale: of the scores.

    Returns:
        Shape ``(t, M, C)``.
    """
    result: Tensor = _AttendShort.apply(query_tMC, key_tNC, value_tNC, block, scale)
    return result


class _AttendShort(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query_tMC: Tensor, key_tNC: Tensor, value_tNC: Tensor, block: ShortDocuments, scale: float
    ) -> Tensor:
        query, key, value = (_side_by_side(x, block, key_tNC.shape[1]) for x in (query_tMC, key_tNC, value_tNC))
        with torch.autocast(query.device.type, enabled=False):  # on a GPU it would make the probabilities float32
            scores = torch.bmm(query, key.mT).mul_(scale)  # (D * N, M / N * W, W)
            num_documents, width = len(block.lengths), block.width
            by_document = scores.view(num_documents, -1, width, width)
            by_document.masked_fill_(block.hidden[:, None], float("-inf"))
            probabilities = torch.softmax(scores, dim=-1)
            attended = torch.bmm(probabilities, value)
        ctx.save_for_backward(query, key, value, probabilities)
        ctx.block, ctx.scale = block, scale
        return _end_to_end(attended, block, query_tMC)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_tMC: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, probabilities = ctx.saved_tensors
        num_heads = key.shape[0] // len(ctx.block.lengths)
        grad = _side_by_side(grad_tMC.to(value.dtype), ctx.block, num_heads, fill=False)
        with torch.autocast(grad.device.type, enabled=False):  # a backward pass inside of it would be cast, too
            grad_value = torch.bmm(probabilities.mT, grad)
            grad_scores = torch._softmax_backward_data(
                torch.bmm(grad, value.mT), probabilities, -1, probabilities.dtype
            ).mul_(ctx.scale)
            grad_query, grad_key = torch.bmm(grad_scores, key), torch.bmm(grad_scores.mT, query)
        like_key = grad_tMC[:, :num_heads]
        return (
            _end_to_end(grad_query, ctx.block, grad_tMC),
            _end_to_end(grad_key, ctx.block, like_key),
            _end_to_end(grad_value, ctx.block, like_key),
            None,
            None,
        )


def _side_by_side(x_tMC: Tensor, block: ShortDocuments, num_key_heads: int, *, fill: bool = True) -> Tensor:
    """From ``(t, M, C)`` to ``(D * N, M / N * W, C)``; padding repeats a token, or is zero with ``fill=False``."""
    num_documents, width, size = len(block.lengths), block.width, x_tMC.shape[-1]
    if fill:
        x_SMC = x_tMC[block.token_in_slot]
    else:
        x_SMC = x_tMC.new_zeros(num_documents * width, *x_tMC.shape[1:]).index_copy_(0, block.slot_t, x_tMC)
    x_DWNgC = x_SMC.view(num_documents, width, num_key_heads, -1, size)
    return x_DWNgC.permute(0, 2, 3, 1, 4).reshape(num_documents * num_key_heads, -1, size)


def _end_to_end(x: Tensor, block: ShortDocuments, like_tMC: Tensor) -> Tensor:
    """Undo :func:`_side_by_side`."""
    num_documents, num_heads, size = len(block.lengths), like_tMC.shape[1], like_tMC.shape[2]
    x_DMWC = x.view(num_documents, num_heads, block.width, size)
    return x_DMWC.transpose(1, 2).reshape(-1, num_heads, size)[block.slot_t]


ONE_MASK = 1024
"""Longest document of several responses that is attended to with one mask. A guess between measured sizes: at 1000
tokens both ways took the same, at 4100 one mask took twice as long."""


def attend_long(
    query_1MtC: Tensor, key_1MtC: Tensor, value_1MtC: Tensor, document: LongDocument, scale: float, window: int = 0
) -> Tensor:
    """Attend to one document, response by response.

    Response by response above a thousand tokens: a mask over the whole document costs the blocks between responses,
    which are empty, and four responses of 1000 tokens take twice as long that way. Behind its prompt each response is a
    plain causal sequence, which needs no mask at all; the prompt's queries are computed again with each, and only the
    first result is used. Where the prompt is longer than the response, that costs more than a mask of response by
    keys, which is used instead. Shorter documents get one mask, since calls cost more than blocks there.

    Args:
        query_1MtC: M heads of size C over the document's t tokens. Shape ``(1, M, t, C)``.
        key_1MtC: the same for the keys.
        value_1MtC: and the values.
        document: its parts.
        scale: of the scores.
        window: tokens that a sliding window lets a query see, itself included; 0 where there is none.

    Returns:
        Shape ``(1, M, t, C)``.
    """
    num_prompt, *num_responses = document.lengths
    if len(num_responses) > 1 and document.num_tokens <= ONE_MASK and not window:
        is_visible = ~is_hidden((document.lengths,), query_1MtC.device)[0]
        return scaled_dot_product_attention(query_1MtC, key_1MtC, value_1MtC, attn_mask=is_visible, scale=scale)
    if len(num_responses) < 2:
        return _causal(query_1MtC, key_1MtC, value_1MtC, scale, window)
    # Split, not sliced: the gradient of a slice is as large as what it was taken from.
    (prompt_query, *queries), (prompt_key, *keys), (prompt_value, *values) = (
        x.split(document.lengths, dim=2) for x in (query_1MtC, key_1MtC, value_1MtC)
    )
    outputs: list[Tensor] = []
    for query, own_key, own_value in zip(queries, keys, values, strict=True):
        key, value = torch.cat([prompt_key, own_key], dim=2), torch.cat([prompt_value, own_value], dim=2)
        num_tokens = query.shape[2]
        if not outputs or num_tokens >= num_prompt:
            attended = _causal(torch.cat([prompt_query, query], dim=2), key, value, scale, window)
            outputs.append(attended if not outputs else attended[:, :, num_prompt:])
        elif num_tokens:
            outputs.append(_causal(query, key, value, scale, window))
    return torch.cat(outputs, dim=2)


def _causal(query: Tensor, key: Tensor, value: Tensor, scale: float, window: int) -> Tensor:
    """Causal attention of the last positions of a sequence, or of all."""
    num_queries, num_keys = query.shape[2], key.shape[2]
    mask = None
    if num_queries < num_keys or 0 < window < num_keys:
        distance = torch.arange(num_keys - num_queries, num_keys, device=key.device)[:, None]
        distance = distance - torch.arange(num_keys, device=key.device)
        mask = (distance >= 0) & (distance < (window or num_keys))
    return scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale)
