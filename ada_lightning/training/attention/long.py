"""Attention in one long document: its prompt and its responses, which see the prompt and not each other."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ada_lightning.training.attention.layout import LongDocument, is_hidden

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
