"""Torch's kernel for sequences of any length, in plain operations that every device has."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention


def varlen_attn(query, key, value, query_ends, key_ends, longest_query, longest_key, *, scale, window_size, enable_gqa):
    """The queries of a sequence are the last of its keys, and see those of them within the window."""
    assert enable_gqa
    assert window_size[0] >= -1  # -1: no window
    assert window_size[1] == 0
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    outputs = []
    for of_queries, of_keys in zip(query_ends.unfold(0, 2, 1).tolist(), key_ends.unfold(0, 2, 1).tolist(), strict=True):
        one = [x[slice(*ends)].transpose(0, 1) for x, ends in ((query, of_queries), (key, of_keys), (value, of_keys))]
        num_queries, num_keys = one[0].shape[1], one[1].shape[1]
        assert num_queries <= longest_query
        assert num_keys <= longest_key
        distance = torch.arange(num_keys - num_queries, num_keys)[:, None] - torch.arange(num_keys)
        is_seen = (distance >= 0) & (distance <= window_size[0] if window_size[0] >= 0 else True)
        is_seen = is_seen.to(query.device)
        outputs.append(scaled_dot_product_attention(*one, attn_mask=is_seen, scale=scale).transpose(0, 1))
    return torch.cat(outputs)
