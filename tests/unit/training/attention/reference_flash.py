"""A stand-in for flash-attn's kernel, behind transformers' own code for it."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from ada_lightning.training.attention import FlashAttention


class ReferenceFlash(FlashAttention):
    implementation = "reference_varlen"  # a name with "flash" in it would make transformers look for a kernel

    def __init__(self):
        from transformers import AttentionInterface

        AttentionInterface.register(self.implementation, _attention)


def _attention(*arguments, **options):
    """Transformers' function, with a variable-length kernel in plain torch where it would load flash-attn's."""
    import transformers.modeling_flash_attention_utils as utils
    from transformers.integrations.flash_attention import flash_attention_forward

    original = utils.lazy_import_flash_attention
    kernels = (None, _varlen, None, None, None)
    utils.lazy_import_flash_attention = lambda _: (kernels, (_options, None))
    try:
        return flash_attention_forward(*arguments, **options)
    finally:
        utils.lazy_import_flash_attention = original


def _options(*, softmax_scale, is_causal, **_):
    return {"softmax_scale": softmax_scale, "causal": is_causal}


def _varlen(query, key, value, *, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal):
    """Attention per sequence, with the layout ``(tokens, heads, size)`` of ``flash_attn_varlen_func``."""
    assert causal
    torch.testing.assert_close(cu_seqlens_q, cu_seqlens_k)
    repeats = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    outputs = []
    for first, end in cu_seqlens_q.unfold(0, 2, 1).tolist():
        one = (x[first:end].transpose(0, 1) for x in (query, key, value))
        outputs.append(scaled_dot_product_attention(*one, is_causal=True, scale=softmax_scale).transpose(0, 1))
    return torch.cat(outputs)
