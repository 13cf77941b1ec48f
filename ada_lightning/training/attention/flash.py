"""Packed attention by the flash-attn package, for NVIDIA GPUs."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import accumulate
from typing import Any

import torch

from ada_lightning.training.attention.backend import AttentionBackend
from ada_lightning.training.batch import Microbatch


class FlashAttention(AttentionBackend):
    """Every document is one sequence of flash-attn's variable-length kernel.

    Such a sequence is causal from end to end, so a document holds one response: prompts are not shared. It computes in
    half precision only (``trainer.precision=bf16-mixed``).
    """

    implementation = "flash_attention_2"
    shares_prompts = False
    needs_gpu = True

    def check(self) -> None:
        """Look for the package; see :class:`AttentionBackend`."""
        if find_spec("flash_attn") is None:
            raise ValueError(
                "the package flash-attn is not installed; pip install 'ada-lightning[flash]' (it compiles for minutes "
                "and needs CUDA), or use attention=flex or attention=sdpa"
            )

    def arguments(self, microbatch: Microbatch) -> dict[str, Any]:
        """See :class:`AttentionBackend`.

        Raises:
            ValueError: responses share a prompt.
        """
        if any(len(parts) > 2 for parts in microbatch.document_lengths):
            raise ValueError("attention=flash cannot share a prompt among responses; use data.share_prompts=false")
        sizes = [sum(parts) for parts in microbatch.document_lengths]
        ends = torch.tensor([0, *accumulate(sizes)], dtype=torch.int32, device=microbatch.input_ids_T.device)
        lengths = {"max_length_q": max(sizes), "max_length_k": max(sizes)}
        return {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, **lengths}
