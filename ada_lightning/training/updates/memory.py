"""Out of memory in an update: what to do about it, and a microbatch in two for the same gradient in less memory."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import compress

import torch

from ada_lightning.run.machine import is_out_of_memory as is_out_of_memory  # whoever updates asks here
from ada_lightning.run.stopping import RunStoppedError
from ada_lightning.training.batch import Microbatch, TrainingBatch


class UpdateOutOfMemoryError(RunStoppedError):
    """An update does not fit into memory, nor does it in smaller parts."""

    def __init__(self, batch: TrainingBatch, error: BaseException) -> None:
        num_tokens = max((microbatch.num_computed_tokens for microbatch in batch), default=0)
        self.what = f"{type(error).__name__} with {num_tokens} tokens at once"
        super().__init__(
            f"an update ran out of memory with {num_tokens} tokens at once ({type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else 'no text'}). Lower data.max_tokens_per_microbatch to "
            f"{max(num_tokens // 2, 1)} or less, lower policy.logprob_chunk_size, switch on "
            "policy.gradient_checkpointing, or give the engine less: rollout.engine.kv_cache_gib"
        )


def halved(microbatch: Microbatch) -> tuple[Microbatch, ...]:
    """Split between responses where about half of the tokens stand on each side.

    A document that is cut has its prompt in both halves. Every response carries what its loss is made of, so the losses
    of the parts add up to that of the whole.

    Returns:
        Two microbatches; the same one alone where it holds a single response.
    """
    num_responses = len(microbatch.num_tokens_B)
    if num_responses < 2:
        return (microbatch,)
    sums = microbatch.num_tokens_B.long().cumsum(0).tolist()  # of floats there is no deterministic sum on a GPU
    cut = min(range(1, num_responses), key=lambda count: abs(sums[count - 1] - sums[-1] / 2))
    return _part(microbatch, slice(0, cut)), _part(microbatch, slice(cut, num_responses))


def _part(microbatch: Microbatch, chosen_B: slice) -> Microbatch:
    """Take consecutive responses, each behind its prompt."""
    is_taken: list[bool] = []
    document_lengths: list[tuple[int, ...]] = []
    first = 0
    for prompt_length, *lengths in microbatch.document_lengths:
        mine = [chosen_B.start <= response < chosen_B.stop for response in range(first, first + len(lengths))]
        first += len(lengths)
        is_taken += [any(mine)] * prompt_length
        for is_mine, length in zip(mine, lengths, strict=True):
            is_taken += [is_mine] * length
        if any(mine):
            document_lengths.append((prompt_length, *compress(lengths, mine)))
    taken_T = torch.tensor(is_taken, device=microbatch.input_ids_T.device)
    taken_K = (microbatch.response_K >= chosen_B.start) & (microbatch.response_K < chosen_B.stop)
    taken = {"T": taken_T, "K": taken_K, "B": chosen_B}
    values = {
        field.name: getattr(microbatch, field.name)[taken[field.name[-1]]]
        for field in fields(microbatch)
        if field.name[-2:] in ("_T", "_K", "_B")
    }
    values["predictor_K"] = (taken_T.cumsum(0) - 1)[values["predictor_K"]]  # where its token stands now
    values["response_K"] = values["response_K"] - chosen_B.start
    return replace(microbatch, document_lengths=tuple(document_lengths), **values)
