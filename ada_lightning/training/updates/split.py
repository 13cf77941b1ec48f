"""A microbatch in two, for the same gradient in less memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from ada_lightning.training.batch import Microbatch

_PACKED = ("input_ids_T", "position_ids_T", "predictor_K", "response_K")
"""Fields that hold positions, which change with what stands before."""


def halved(microbatch: Microbatch) -> tuple[Microbatch, ...]:
    """Split between responses where about half of the tokens stand on each side.

    A document that is cut has its prompt in both halves. Every response carries the statistics that its advantage is
    made of, so the losses of the parts add up to that of the whole.

    Returns:
        Two microbatches; the same one alone where it holds a single response.
    """
    num_responses = len(microbatch.num_tokens_B)
    if num_responses < 2:
        return (microbatch,)
    documents = [index for index, lengths in enumerate(microbatch.document_lengths) for _ in lengths[1:]]
    sums = microbatch.num_tokens_B.cumsum(0).tolist()
    cut = min(range(1, num_responses), key=lambda count: abs(sums[count - 1] - sums[-1] / 2))
    return (
        _taken(microbatch, range(cut), documents),
        _taken(microbatch, range(cut, num_responses), documents),
    )


def _taken(microbatch: Microbatch, chosen: range, documents: Sequence[int]) -> Microbatch:
    """Pack a run of consecutive responses anew."""
    device = microbatch.input_ids_T.device
    starts, first_response = _document_starts(microbatch)
    positions: list[Tensor] = []
    predictors: list[Tensor] = []
    lengths: list[list[int]] = []
    num_packed = 0
    last_of_prompt = 0
    for response in chosen:
        document = documents[response]
        prompt_length, *response_lengths = microbatch.document_lengths[document]
        if response == chosen[0] or documents[response - 1] != document:
            positions.append(torch.arange(starts[document], starts[document] + prompt_length, device=device))
            lengths.append([prompt_length])
            num_packed += prompt_length
            last_of_prompt = num_packed - 1
        index = response - first_response[document]
        length = response_lengths[index]
        start = starts[document] + prompt_length + sum(response_lengths[:index])
        positions.append(torch.arange(start, start + length, device=device))
        inside = torch.arange(num_packed, num_packed + length - 1, device=device)
        predictors.append(torch.cat([torch.tensor([last_of_prompt], device=device), inside])[:length])
        lengths[-1].append(length)
        num_packed += length
    where_T = torch.cat(positions)
    is_mine_K = (microbatch.response_K >= chosen.start) & (microbatch.response_K < chosen.stop)
    return replace(
        microbatch,
        input_ids_T=microbatch.input_ids_T[where_T],
        position_ids_T=microbatch.position_ids_T[where_T],
        document_lengths=tuple(map(tuple, lengths)),
        predictor_K=torch.cat(predictors),
        response_K=microbatch.response_K[is_mine_K] - chosen.start,
        **_sliced(microbatch, is_mine_K, slice(chosen.start, chosen.stop)),
    )


def _document_starts(microbatch: Microbatch) -> tuple[list[int], list[int]]:
    """Where each document begins among the tokens, and which is its first response."""
    starts, first_response, num_tokens, num_responses = [], [], 0, 0
    for lengths in microbatch.document_lengths:
        starts.append(num_tokens)
        first_response.append(num_responses)
        num_tokens += sum(lengths)
        num_responses += len(lengths) - 1
    return starts, first_response


def _sliced(microbatch: Microbatch, is_mine_K: Tensor, mine_B: slice) -> dict[str, Any]:
    """Everything that stands per token or per response and holds no position."""
    sliced: dict[str, Any] = {}
    for field in fields(microbatch):
        if field.name in _PACKED:
            continue
        if field.name.endswith("_K"):
            sliced[field.name] = getattr(microbatch, field.name)[is_mine_K]
        elif field.name.endswith("_B"):
            sliced[field.name] = getattr(microbatch, field.name)[mine_B]
    return sliced
