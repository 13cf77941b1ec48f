"""What packing replaces: a group per row, padded to the widest, with a dense mask for transformers' own attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ada_lightning.training.batch import Microbatch


def padded_forward(model: Any, microbatch: Microbatch) -> Tensor:
    """Hidden states that predict the response tokens, by padded rows. Shape ``(K, H)``.

    The model must have ``sdpa`` as its attention.
    """
    lengths = microbatch.document_lengths
    sizes = [sum(parts) for parts in lengths]
    shape = len(sizes), max(sizes)
    device = microbatch.input_ids_T.device
    is_token_RT = torch.arange(shape[1]) < torch.tensor(sizes)[:, None]
    segment_RT = torch.full(shape, -1)
    segment_RT[is_token_RT] = torch.tensor([s for parts in lengths for s, n in enumerate(parts) for _ in range(n)])
    query_RT1, key_R1T = segment_RT[:, :, None], segment_RT[:, None, :]
    is_visible_RTT = ((query_RT1 == key_R1T) | (key_R1T == 0)) & torch.ones(shape[1], shape[1], dtype=torch.bool).tril()
    is_token_RT = is_token_RT.to(device)
    rows = [
        torch.zeros(shape, dtype=torch.int64, device=device).masked_scatter_(is_token_RT, ids_T)
        for ids_T in (microbatch.input_ids_T, microbatch.position_ids_T)
    ]
    hidden_RTH = model.base_model(
        input_ids=rows[0], position_ids=rows[1], attention_mask=is_visible_RTT[:, None].to(device), use_cache=False
    ).last_hidden_state
    return hidden_RTH[is_token_RT][microbatch.predictor_K]


def padded_splits(documents: list[tuple[int, ...]], max_tokens: int) -> Iterator[list[tuple[int, ...]]]:
    """Rows of similar length together, as many as fit the budget with their padding. Longest first."""
    rows: list[tuple[int, ...]] = []
    for parts in sorted(documents, key=sum, reverse=True):
        if rows and (len(rows) + 1) * sum(rows[0]) > max_tokens:
            yield rows
            rows = []
        rows.append(parts)
    yield rows
