"""Packed attention by torch's flex attention, for GPUs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ada_lightning.training.attention.backend import AttentionBackend
from ada_lightning.training.batch import Microbatch


class FlexAttention(AttentionBackend):
    """One compiled kernel for the whole microbatch, which skips blocks of 128 x 128 that nobody may see.

    Needs a GPU: torch 2.13 raises "FlexAttention does not support backward on CPU".
    """

    implementation = "flex_attention"
    can_slide = False  # one mask serves all layers
    needs_gpu = True

    def arguments(self, microbatch: Microbatch) -> dict[str, Any]:
        """Arguments of the model for this microbatch."""
        from torch.nn.attention.flex_attention import create_block_mask

        num_tokens, device = microbatch.num_computed_tokens, microbatch.input_ids_T.device
        document_T, segment_T = (ids.to(device) for ids in document_and_segment(microbatch.document_lengths))

        def is_visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            is_ancestor = (segment_T[query] == segment_T[key]) | (segment_T[key] == 0)
            return (query >= key) & (document_T[query] == document_T[key]) & is_ancestor

        mask = create_block_mask(is_visible, B=None, H=None, Q_LEN=num_tokens, KV_LEN=num_tokens, device=str(device))
        return {"attention_mask": mask}


def document_and_segment(lengths: tuple[tuple[int, ...], ...]) -> tuple[Tensor, Tensor]:
    """Return which document each token is of, and 0 on a prompt, 1, 2, ... on its responses. Shapes ``(T,)``, int64.

    Example:
        >>> document_T, segment_T = document_and_segment(((2, 1, 3), (1, 1)))
        >>> document_T.tolist(), segment_T.tolist()
        ([0, 0, 0, 0, 0, 0, 1, 1], [0, 0, 1, 2, 2, 2, 0, 1])
    """
    sizes = torch.tensor([sum(parts) for parts in lengths])
    parts = torch.tensor([part for document in lengths for part in document])
    segments = torch.tensor([segment for document in lengths for segment in range(len(document))])
    return torch.arange(len(lengths)).repeat_interleave(sizes), segments.repeat_interleave(parts)
