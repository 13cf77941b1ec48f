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
    query_1MTC: Tensor, key_1NTC: Tensor, value_1NTC: Tensor, document: LongDocument, scale: float, window: int = 0
) -> Tensor:
    """Attend to one document of the microbatch, response by response.

    Response by response above a thousand tokens: a mask over the whole document costs the blocks between responses,
    which are empty, and four responses of 1000 tokens take twice as long that way. Behind its prompt each response is a
    plain causal sequence, which needs no mask at all; the prompt's queries are computed again with each, and only the
    first result is used. Where the prompt is longer than the response, that costs more than a mask of response by
    keys, which is used instead. Shorter documents get one mask, since calls cost more than blocks there.

    Args:
        query_1MTC: M query heads of size C over all T tokens of the microbatch. Shape ``(1, M, T, C)``.
        key_1NTC: N key heads, each for ``M / N`` query heads in order. Shape ``(1, N, T, C)``.
        value_1NTC: as keys.
        document: where it is.
        scale: of the scores.
        window: tokens that a sliding window lets a query see, itself included; 0 where there is none.

    Returns:
        Shape ``(1, M, t, C)``, t being the document's tokens.
    """
    num_prompt, *num_responses = document.lengths
    if len(num_responses) > 1 and sum(document.lengths) <= ONE_MASK and not window:
        parts = slice(document.first, document.first + sum(document.lengths))
        query, key, value = (x[:, :, parts] for x in (query_1MTC, key_1NTC, value_1NTC))
        is_visible = ~is_hidden((document.lengths,), query.device)[0]
        return scaled_dot_product_attention(query, key, value, attn_mask=is_visible, scale=scale)
    prompt = slice(document.first, document.first + num_prompt)
    outputs: list[Tensor] = []
    first = prompt.stop
    for num_tokens in num_responses or [0]:
        response = slice(first, first + num_tokens)
        first = response.stop
        key, value = (_join(x, prompt, response) for x in (key_1NTC, value_1NTC))
        if not outputs or num_tokens >= num_prompt:
            query = _join(query_1MTC, prompt, response)
            attended = _causal(query, key, value, scale, window)
            outputs.append(attended if not outputs else attended[:, :, num_prompt:])
        elif num_tokens:
            outputs.append(_causal(query_1MTC[:, :, response], key, value, scale, window))
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


def _join(x: Tensor, prompt: slice, response: slice) -> Tensor:
    if prompt.stop == response.start:
        return x[:, :, prompt.start : response.stop]
    return torch.cat([x[:, :, prompt], x[:, :, response]], dim=2)
